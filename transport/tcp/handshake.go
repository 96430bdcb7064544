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
	"slices"
	"time"

	"github.com/goccl/goccl/internal/aead"
	"github.com/goccl/goccl/internal/plain"
)

// ErrAuth means that the other end does not know the endpoint's secret.
var ErrAuth = errors.New("tcp: authentication failed")

// Credential lets its holder connect to an endpoint of a Port: a Peer, or an exchange.
type Credential struct {
	Endpoint uint64
	Secret   [32]byte
}

// The handshake, dialler D and listener L:
//
//  1. D → L: hello: magic, endpoint, D's endpoint, nonce
//  2. L → D: a byte: whether the endpoint exists, nonce, proof = HMAC(secret, "listener", hello, nonce)
//  3. D → L: proof = HMAC(secret, "dialler", hello, nonce)
//  4. L → D: an empty message, sealed
//
// The keys of both directions are derived from the secret and all data of the handshake, including both nonces.
const (
	helloMagic = 0x32706363_6c676f63
	nonceSize  = 32
	helloSize  = 8 + 8 + 8 + nonceSize
	replySize  = 1 + nonceSize + sha256.Size

	noEndpoint = 0
	anEndpoint = 1

	// handshakeTimeout bounds a handshake: one or two round trips, on a machine that may be busy.
	handshakeTimeout = 5 * time.Second
)

// proof returns the MAC over all data of both sides; the role prevents that one side's proof is reflected as the
// other's.
func proof(secret *[32]byte, role string, hello, nonce []byte) []byte {
	m := hmac.New(sha256.New, secret[:])
	m.Write([]byte(role))
	m.Write(hello)
	m.Write(nonce)
	return m.Sum(nil)
}

// ciphers returns the ciphers for what comes from the dialler and from the listener.
func ciphers(secret *[32]byte, hello, nonce []byte) (fromDialler, fromListener *aead.Cipher) {
	transcript := slices.Concat(hello, nonce)
	return aead.New(secret[:], transcript, "ethernet dialler"), aead.New(secret[:], transcript, "ethernet listener")
}

// errRetry marks a handshake that ended without a verdict: the listener was full, or its host was busy.
type errRetry struct{ error }

func (e errRetry) Unwrap() error { return e.error }

// greet is the dialler's side.
func greet(c net.Conn, deadline time.Time, cred *Credential, from uint64) (*stream, error) {
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	hello := make([]byte, helloSize)
	binary.LittleEndian.PutUint64(hello, helloMagic)
	binary.LittleEndian.PutUint64(hello[8:], cred.Endpoint)
	binary.LittleEndian.PutUint64(hello[16:], from)
	_, _ = rand.Read(hello[24:]) // never fails
	if _, err := c.Write(hello); err != nil {
		return nil, errRetry{err}
	}
	reply := make([]byte, replySize)
	if _, err := io.ReadFull(c, reply); err != nil {
		return nil, errRetry{err}
	}
	nonce, theirs := reply[1:1+nonceSize], reply[1+nonceSize:]
	switch {
	case reply[0] == noEndpoint:
		return nil, fmt.Errorf("%w: %v has no such endpoint, or has closed it", ErrAuth, c.RemoteAddr())
	case !hmac.Equal(theirs, proof(&cred.Secret, "listener", hello, nonce)):
		return nil, fmt.Errorf("%w: %v does not know the endpoint's secret", ErrAuth, c.RemoteAddr())
	}
	if _, err := c.Write(proof(&cred.Secret, "dialler", hello, nonce)); err != nil {
		return nil, errRetry{err}
	}
	out, in := ciphers(&cred.Secret, hello, nonce)
	s := &stream{conn: c, in: in, out: out}
	b, err := s.receive()
	switch {
	case errors.Is(err, aead.ErrForged):
		return nil, fmt.Errorf("%w: %v: %w", ErrAuth, c.RemoteAddr(), err)
	case errors.Is(err, errFrame):
		return nil, err
	case err != nil:
		return nil, errRetry{err}
	case len(b) != 0:
		return nil, fmt.Errorf("%w: a message of %d bytes in the handshake", errFrame, len(b))
	}
	return s, c.SetDeadline(time.Time{})
}

// admit is the listener's side. It calls greeted when the dialler has sent data; find looks up an endpoint.
func admit(c net.Conn, deadline time.Time, greeted func(), find func(id uint64) *endpoint) (s *stream, e *endpoint,
	from uint64, err error) {
	if err := c.SetDeadline(deadline); err != nil {
		return nil, nil, 0, err
	}
	hello := make([]byte, helloSize)
	// Check the magic first, so that a connection of another protocol is dropped at once and not at the deadline.
	if _, err := io.ReadFull(c, hello[:8]); err != nil {
		return nil, nil, 0, err
	}
	if m := binary.LittleEndian.Uint64(hello); m != helloMagic {
		return nil, nil, 0, fmt.Errorf("%w: magic %#x: not goccl, or another release of it; use one in a job", ErrAuth, m)
	}
	if _, err := io.ReadFull(c, hello[8:]); err != nil {
		return nil, nil, 0, err
	}
	greeted()
	id, from := binary.LittleEndian.Uint64(hello[8:]), binary.LittleEndian.Uint64(hello[16:])
	reply := make([]byte, 1+nonceSize, replySize)
	if e = find(id); e == nil {
		_, _ = c.Write(reply[:replySize])
		return nil, nil, 0, fmt.Errorf("%w: no endpoint %#x", ErrAuth, id)
	}
	key := &e.secret
	reply[0] = anEndpoint
	nonce := reply[1:]
	_, _ = rand.Read(nonce)
	reply = append(reply, proof(key, "listener", hello, nonce)...)
	if _, err := c.Write(reply); err != nil {
		return nil, nil, 0, err
	}
	got := make([]byte, sha256.Size)
	if _, err := io.ReadFull(c, got); err != nil {
		return nil, nil, 0, err
	}
	if !hmac.Equal(got, proof(key, "dialler", hello, nonce)) {
		return nil, nil, 0, fmt.Errorf("%w: wrong proof for endpoint %#x", ErrAuth, id)
	}
	in, out := ciphers(key, hello, nonce)
	s = &stream{conn: c, in: in, out: out}
	if err := s.send(nil); err != nil {
		return nil, nil, 0, err
	}
	return s, e, from, c.SetDeadline(time.Time{})
}

// stream is a connection after the handshake. It carries messages: the length, u32 little endian, then the message
// encrypted, and authenticated together with the length. A lane takes over the connection after the join, with the
// ciphers and the numbers of messages. One goroutine at a time sends, and one receives. The caller sets deadlines.
type stream struct {
	conn      net.Conn
	in, out   *aead.Cipher
	nIn, nOut uint64 // messages received and sent
}

const (
	lengthSize = 4
	// maxMessage is the length of the longest message.
	maxMessage = 64 << 10
)

func (s *stream) send(b []byte) error {
	if len(b) > maxMessage {
		return fmt.Errorf("tcp: a message of %d bytes, at most %d allowed", len(b), maxMessage)
	}
	length := binary.LittleEndian.AppendUint32(nil, uint32(len(b)))
	sealed := s.out.Seal(append(make([]byte, 0, lengthSize+len(b)+aead.Overhead), length...), s.nOut, b, length)
	s.nOut++
	_, err := s.conn.Write(sealed)
	return err
}

// receive returns the next message. It reads nothing behind it.
func (s *stream) receive() ([]byte, error) {
	var length [lengthSize]byte
	if _, err := io.ReadFull(s.conn, length[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n > maxMessage {
		return nil, fmt.Errorf("%w: a message of %d bytes, at most %d allowed", errFrame, n, maxMessage)
	}
	b := make([]byte, n+aead.Overhead)
	if _, err := io.ReadFull(s.conn, b); err != nil {
		return nil, err
	}
	plain, err := s.in.Open(s.nIn, b, length[:])
	s.nIn++
	return plain, err
}

// sendPacket and receivePacket carry the join of a lane.
func (s *stream) sendPacket(p packet) error {
	return s.send(plain.Bytes(&p))
}

func (s *stream) receivePacket() (packet, error) {
	b, err := s.receive()
	if err != nil {
		return packet{}, err
	}
	if len(b) != packetSize {
		return packet{}, fmt.Errorf("%w: %d bytes instead of a packet", errFrame, len(b))
	}
	return parsePacket(b)
}
