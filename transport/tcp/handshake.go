package tcp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// ErrAuth says that the other end does not know the endpoint's secret.
var ErrAuth = errors.New("tcp: authentication failed")

// Credential lets its holder connect to an endpoint of a Node.
type Credential struct {
	Endpoint uint64
	Secret   [32]byte
}

const (
	helloMagic = 0x31706363_6c676f63
	nonceSize  = 32
	helloSize  = 8 + 8 + 8 + nonceSize // magic, endpoint, dialler's endpoint, nonce
	replySize  = nonceSize + sha256.Size
)

// proof is the MAC over everything both sides said; the role keeps one from being reflected as the other.
func proof(secret *[32]byte, role string, hello, nonce []byte) []byte {
	m := hmac.New(sha256.New, secret[:])
	m.Write([]byte(role))
	m.Write(hello)
	m.Write(nonce)
	return m.Sum(nil)
}

// greet is the dialler's half:
//
//	→ hello     ← nonce, proof of the listener     → proof of the dialler     ← one byte
func greet(c net.Conn, deadline time.Time, cred *Credential, from uint64) error {
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	hello := make([]byte, helloSize)
	binary.LittleEndian.PutUint64(hello, helloMagic)
	binary.LittleEndian.PutUint64(hello[8:], cred.Endpoint)
	binary.LittleEndian.PutUint64(hello[16:], from)
	_, _ = rand.Read(hello[24:]) // never fails
	if _, err := c.Write(hello); err != nil {
		return err
	}
	reply := make([]byte, replySize)
	if _, err := io.ReadFull(c, reply); err != nil {
		return refused(err)
	}
	if !hmac.Equal(reply[nonceSize:], proof(&cred.Secret, "listener", hello, reply[:nonceSize])) {
		return fmt.Errorf("%w: %v does not know the endpoint's secret", ErrAuth, c.RemoteAddr())
	}
	if _, err := c.Write(proof(&cred.Secret, "dialler", hello, reply[:nonceSize])); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, reply[:1]); err != nil {
		return refused(err)
	}
	return c.SetDeadline(time.Time{})
}

// refused explains a listener that hung up in the middle of the handshake.
func refused(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the listener hung up: the endpoint is closed or its secret is another", ErrAuth)
	}
	return err
}

// admit is the listener's half. secret looks an endpoint up.
func admit(c net.Conn, deadline time.Time, secret func(endpoint uint64) (*[32]byte, bool)) (endpoint, from uint64, err error) {
	if err := c.SetDeadline(deadline); err != nil {
		return 0, 0, err
	}
	hello := make([]byte, helloSize)
	if _, err := io.ReadFull(c, hello); err != nil {
		return 0, 0, err
	}
	if m := binary.LittleEndian.Uint64(hello); m != helloMagic {
		return 0, 0, fmt.Errorf("%w: magic %#x", ErrAuth, m)
	}
	endpoint, from = binary.LittleEndian.Uint64(hello[8:]), binary.LittleEndian.Uint64(hello[16:])
	key, ok := secret(endpoint)
	if !ok {
		return 0, 0, fmt.Errorf("%w: no endpoint %#x", ErrAuth, endpoint)
	}
	reply := make([]byte, nonceSize, replySize)
	_, _ = rand.Read(reply)
	reply = append(reply, proof(key, "listener", hello, reply)...)
	if _, err := c.Write(reply); err != nil {
		return 0, 0, err
	}
	got := make([]byte, sha256.Size)
	if _, err := io.ReadFull(c, got); err != nil {
		return 0, 0, err
	}
	if !hmac.Equal(got, proof(key, "dialler", hello, reply[:nonceSize])) {
		return 0, 0, fmt.Errorf("%w: wrong proof for endpoint %#x", ErrAuth, endpoint)
	}
	if _, err := c.Write([]byte{1}); err != nil {
		return 0, 0, err
	}
	return endpoint, from, c.SetDeadline(time.Time{})
}
