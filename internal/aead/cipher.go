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

// Overhead is how much longer a sealed record is.
const Overhead = 16

const keySize = 16

// keyRecords is how many records one key seals, as a power of two. With records of up to 2²⁰ bytes that is 2³⁶ blocks of AES at most, which keeps
// the advantage of whoever tells GCM from a perfect cipher below 2⁻⁵⁶ per key.
const keyRecords = 20

// ErrForged says that a record is not the one that the peer sealed under this number.
var ErrForged = errors.New("aead: the record was changed, repeated or reordered on its way, or is a stranger's")

// Cipher seals or opens the records of one direction.
type Cipher struct {
	aead  cipher.AEAD
	chain []byte // the next key comes from it, and it forgets the one before
	epoch uint64
	nonce [12]byte
}

// New derives the cipher of one direction. secret has at least 128 bits that nobody else knows. transcript is all that both sides said in the
// handshake, a fresh nonce or key of each included: then no two connections share a key. The two directions differ.
func New(secret, transcript []byte, direction string) *Cipher {
	sum := sha256.Sum256(transcript)
	chain, err := hkdf.Key(sha256.New, secret, sum[:], "goccl "+direction, sha256.Size)
	if err != nil {
		panic(err) // only for a key longer than HKDF can make
	}
	c := &Cipher{chain: chain}
	c.install()
	return c
}

// install makes the key of the chain's present state.
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

// at prepares for record n. Records go forward: n is never of an epoch that has passed.
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

// Seal appends record n, plain sealed and extra authenticated with it, to dst. No two records that leave the process have one number. plain and the
// room behind dst are the same memory, or do not overlap.
func (c *Cipher) Seal(dst []byte, n uint64, plain, extra []byte) []byte {
	c.at(n)
	return c.aead.Seal(dst, c.nonce[:], plain, extra)
}

// Open opens record n in place. When it fails the contents of sealed are lost.
func (c *Cipher) Open(n uint64, sealed, extra []byte) ([]byte, error) {
	c.at(n)
	plain, err := c.aead.Open(sealed[:0], c.nonce[:], sealed, extra)
	if err != nil {
		return nil, fmt.Errorf("record %d: %w", n, ErrForged)
	}
	return plain, nil
}
