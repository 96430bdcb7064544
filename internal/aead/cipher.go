package aead

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// Overhead is the number of bytes that sealing adds to a record.
const Overhead = 16

const keySize = 16

// keyRecords is the number of records per key, as a power of two. With records of up to 2²⁰ bytes that is at most 2³⁶
// AES blocks, which keeps an attacker's advantage in distinguishing GCM from an ideal cipher below 2⁻⁵⁶ per key.
const keyRecords = 20

// ErrForged means that a record is not the one that the peer sealed with this number.
var ErrForged = errors.New("aead: the record was changed, repeated, reordered or forged")

// Cipher seals or opens the records of one direction.
type Cipher struct {
	aead  cipher.AEAD
	chain []byte // the next key is derived from it; the derivation replaces it, so earlier keys cannot be recovered
	epoch uint64
	nonce [12]byte
}

// New derives the cipher of one direction. secret must have at least 128 bits of entropy. transcript is all data of
// both sides in the handshake, including a fresh nonce or key of each, so that no two connections share a key.
// direction must differ between the two directions.
func New(secret, transcript []byte, direction string) *Cipher {
	sum := sha256.Sum256(transcript)
	chain, err := hkdf.Key(sha256.New, secret, sum[:], "goccl "+direction, sha256.Size)
	if err != nil {
		panic(err) // cannot happen: only for a key longer than HKDF's limit
	}
	c := &Cipher{chain: chain}
	c.install()
	return c
}

// install derives the key from the chain's current state.
func (c *Cipher) install() {
	key, err := hkdf.Expand(sha256.New, c.chain, "key", keySize)
	if err != nil {
		panic(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	if c.aead, err = cipher.NewGCM(block); err != nil {
		panic(err)
	}
}

// at prepares for record n. It only moves forward: n must not belong to an earlier epoch.
func (c *Cipher) at(n uint64) {
	for ; c.epoch < n>>keyRecords; c.epoch++ {
		next, err := hkdf.Expand(sha256.New, c.chain, "next", sha256.Size)
		if err != nil {
			panic(err)
		}
		c.chain = next
		c.install()
	}
	binary.BigEndian.PutUint64(c.nonce[4:], n)
}

// Seal appends record n to dst: plain encrypted, and extra authenticated with it. No two records that leave the process
// may have the same number. plain must either start exactly at the end of dst, or not overlap dst's spare capacity.
func (c *Cipher) Seal(dst []byte, n uint64, plain, extra []byte) []byte {
	c.at(n)
	return c.aead.Seal(dst, c.nonce[:], plain, extra)
}

// Open decrypts record n in place. If it fails, the contents of sealed are lost.
func (c *Cipher) Open(n uint64, sealed, extra []byte) ([]byte, error) {
	c.at(n)
	plain, err := c.aead.Open(sealed[:0], c.nonce[:], sealed, extra)
	if err != nil {
		return nil, fmt.Errorf("record %d: %w", n, ErrForged)
	}
	return plain, nil
}
