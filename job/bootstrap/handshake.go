package bootstrap

import (
	"cmp"
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"
	"unsafe"

	"github.com/goccl/goccl/internal/aead"
	"github.com/goccl/goccl/internal/plain"
)

// The handshake, dialer D and acceptor A, who share a secret:
//
//  1. D → A: greeting: version, role, purpose, world size, rank, target, nonce, both addresses as D sees them, session,
//     origin, X25519 public key
//  2. A → D: greeting: the same of A
//  3. D → A: proof = HMAC(secret, "dialer", both greetings)
//  4. A → D: verdict, proof = HMAC(secret, "acceptor", both greetings, verdict)
//
// Both proofs cover all data of both sides. A proves second, so an attacker who merely connects collects no material
// for guessing a weak secret. Frame keys are derived from the secret, the X25519 exchange and both greetings: an
// eavesdropper reads nothing, even if it knows or later learns the secret; an active attacker must know the secret.
// Sizes are fixed; no allocation depends on a peer's data.
const (
	protocolMagic   = "gccl"
	protocolVersion = 7
	greetingSize    = 176
	proofSize       = sha256.Size
	verdictSize     = 8 + proofSize
)

type role uint8

const (
	roleJoiner role = iota + 1
	roleRoot
	roleDialer
	roleAcceptor
)

// greeting has the form that it has on the wire.
type greeting struct {
	magic         [4]byte
	version       uint16
	role          role
	purpose       purpose // of a rank that dials another one
	world         uint32
	rank, target  int32 // target -1: the root; rank -1: a root that knows no rank of its process
	reserved      [4]byte
	nonce         [32]byte
	local, remote wireAddr
	session       [16]byte // between ranks the session of the table, between a rank and the root the attempt
	from          origin   // of a rank that dials the root
	public        [32]byte // X25519, made for this connection
}

var _ = [1]struct{}{}[unsafe.Sizeof(greeting{})-greetingSize]

func (g greeting) encode() [greetingSize]byte {
	copy(g.magic[:], protocolMagic)
	return [greetingSize]byte(plain.Bytes(&g))
}

// errNotGoccl means that the other side does not use the goccl protocol.
var errNotGoccl = fmt.Errorf("%w: not a goccl greeting", ErrProtocol)

func decodeGreeting(b *[greetingSize]byte) (g greeting, err error) {
	if g.version, err = checkVersion(b[:]); err != nil {
		return g, err
	}
	g = plain.Read[greeting](b[:])
	if g.role < roleJoiner || g.role > roleAcceptor || g.purpose >= purposes || g.reserved != [4]byte{} {
		return g, errNotGoccl
	}
	return g, nil
}

// wireAddr is an IP address and port: family (0, 4 or 6), 0, port u16, 16 bytes.
type wireAddr [20]byte

func toWire(ap netip.AddrPort) (w wireAddr) {
	if a := ap.Addr().Unmap(); a.IsValid() {
		if w[0] = 6; a.Is4() {
			w[0] = 4
		}
		binary.LittleEndian.PutUint16(w[2:], ap.Port())
		copy(w[4:], a.AsSlice())
	}
	return w
}

func (w wireAddr) addrPort() (netip.AddrPort, bool) {
	port := binary.LittleEndian.Uint16(w[2:])
	switch w[0] {
	case 4:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(w[4:8])), port), true
	case 6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(w[4:20])), port), true
	}
	return netip.AddrPort{}, false
}

func wireOf(a net.Addr) wireAddr {
	if t, ok := a.(*net.TCPAddr); ok {
		return toWire(t.AddrPort())
	}
	return wireAddr{}
}

// verdict is the acceptor's answer. Only verdictOK is followed by frames.
type verdict uint8

const (
	verdictOK verdict = iota
	verdictAuth
	verdictWorld
	verdictDuplicate
	verdictRange
	verdictProtocol
	verdictTimeout // a deadline on either side
	verdictGaveUp  // a rank stopped joining
	verdictAttempt
	verdicts
)

var verdictErrors = [verdicts]error{
	verdictAuth: fmt.Errorf("%w: the other side refused our secret; all ranks need the same UniqueID, or the same "+
		"address and GOCCL_SECRET", ErrAuth), verdictWorld: ErrWorldSize, verdictDuplicate: ErrDuplicateRank,
	verdictRange: ErrRankRange, verdictProtocol: ErrProtocol, verdictTimeout: ErrTimeout, verdictGaveUp: ErrClosed,
	verdictAttempt: ErrAttempt,
}

func (v verdict) err() error {
	if v >= verdicts {
		return ErrProtocol
	}
	return verdictErrors[v]
}

func seal(secret []byte, label string, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("goccl bootstrap 1 " + label + "\x00"))
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// begin fills in the fields that are specific to this connection. It returns the private half of its key.
func (g *greeting) begin(c net.Conn) (*ecdh.PrivateKey, error) {
	g.version = protocolVersion
	g.local, g.remote = wireOf(c.LocalAddr()), wireOf(c.RemoteAddr())
	_, _ = rand.Read(g.nonce[:]) // never fails
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	copy(g.public[:], private.PublicKey().Bytes())
	return private, nil
}

// frameCiphers returns the ciphers for the frames from the dialer and from the acceptor.
func frameCiphers(secret []byte, private *ecdh.PrivateKey, them *greeting, dialer, acceptor []byte) (fromDialer,
	fromAcceptor *aead.Cipher, err error) {
	public, err := ecdh.X25519().NewPublicKey(them.public[:])
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	shared, err := private.ECDH(public)
	if err != nil { // a key that makes every exchange yield the same result
		return nil, nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	key, transcript := slices.Concat(shared, secret), slices.Concat(dialer, acceptor)
	return aead.New(key, transcript, "bootstrap dialer"), aead.New(key, transcript, "bootstrap acceptor"), nil
}

// errRetry marks a handshake that ended before any verdict: the other side may be busy, closing, or not ready.
type errRetry struct{ error }

func (e errRetry) Unwrap() error { return e.error }

// shakeDialer runs the dialer's side on c. It does not close c. deadline applies to the other side's greeting. After
// our proof the other side may have admitted us. A retry would then find its own place taken, so after that only end,
// the caller's limit, ends the wait.
func shakeDialer(c net.Conn, secret []byte, me greeting, deadline, end time.Time) (*frameConn, greeting, error) {
	_ = c.SetDeadline(deadline)
	private, err := me.begin(c)
	if err != nil {
		return nil, greeting{}, err
	}
	mine := me.encode()
	if _, err := c.Write(mine[:]); err != nil {
		return nil, greeting{}, errRetry{err}
	}
	theirs, them, err := readAcceptor(c, secret, me.rank)
	if err != nil {
		return nil, them, err
	}
	_ = c.SetDeadline(end)
	if _, err := c.Write(seal(secret, "dialer", mine[:], theirs[:])); err != nil {
		return nil, them, errRetry{err}
	}
	var answer [verdictSize]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return nil, them, errRetry{err}
	}
	if v := verdict(answer[0]); v == verdictAuth {
		return nil, them, v.err()
	}
	if !hmac.Equal(answer[8:], seal(secret, "acceptor", mine[:], theirs[:], answer[:8])) {
		return nil, them, fmt.Errorf("%w: the other side does not know our secret", ErrAuth)
	}
	if them.target != me.rank || them.role != me.role+1 {
		return nil, them, fmt.Errorf("%w: the other side took us for rank %d", ErrProtocol, them.target)
	}
	if err := me.judged(verdict(answer[0]), &them); err != nil {
		return nil, them, err
	}
	out, in, err := frameCiphers(secret, private, &them, mine[:], theirs[:])
	if err != nil {
		return nil, them, err
	}
	_ = c.SetDeadline(time.Time{})
	return newFrameConn(c, in, out), them, nil
}

// readAcceptor reads the acceptor's greeting. A release with which this one cannot speak gets a complaint of rank.
func readAcceptor(c net.Conn, secret []byte, rank int32) (b [greetingSize]byte, them greeting, err error) {
	if n, err := io.ReadFull(c, b[:versionEnd]); err != nil {
		if n > 0 && string(b[:min(n, 4)]) != protocolMagic[:min(n, 4)] {
			err = errNotGoccl
		}
		return b, them, errRetry{err}
	}
	switch version, err := checkVersion(b[:]); {
	case errors.Is(err, errRelease):
		complain(c, secret, rank, b[:versionEnd])
		return b, greeting{version: version}, err
	case err != nil:
		return b, them, errRetry{err}
	}
	if _, err := io.ReadFull(c, b[versionEnd:]); err != nil {
		return b, them, errRetry{err}
	}
	them, err = decodeGreeting(&b)
	return b, them, err
}

// judged returns the dialer's error for the acceptor's verdict.
func (g *greeting) judged(v verdict, them *greeting) error {
	switch v {
	case verdictWorld:
		return fmt.Errorf("%w: this rank says %d, the job says %d", v.err(), g.world, them.world)
	case verdictDuplicate:
		return fmt.Errorf("%w: another process has come as rank %d; give every process another rank", v.err(), g.rank)
	case verdictAttempt:
		return attempt(g.session).meets(them.session)
	}
	return v.err()
}

// shakeAcceptor runs the acceptor's side on c. admit judges an authenticated dialer; greeted is called once the
// dialer's greeting has arrived. It does not close c.
func shakeAcceptor(c net.Conn, secret []byte, me greeting, deadline time.Time, greeted func(),
	admit func(greeting) verdict) (*frameConn, greeting, error) {
	_ = c.SetDeadline(deadline)
	theirs, them, err := me.readDialer(c, secret, admit)
	if err != nil {
		return nil, them, err
	}
	them, err = decodeGreeting(&theirs)
	if err == nil && them.role != me.role-1 {
		err = fmt.Errorf("%w: role %d where %d is due", ErrProtocol, them.role, me.role-1)
	}
	greeted()
	me.target = them.rank
	private, keyErr := me.begin(c)
	if err = cmp.Or(keyErr, err); err != nil {
		return nil, them, err
	}
	mine := me.encode()
	if _, err := c.Write(mine[:]); err != nil {
		return nil, them, err
	}
	var proof [proofSize]byte
	if _, err := io.ReadFull(c, proof[:]); err != nil {
		return nil, them, noEOF(err)
	}
	var answer [verdictSize]byte
	if !hmac.Equal(proof[:], seal(secret, "dialer", theirs[:], mine[:])) {
		answer[0] = byte(verdictAuth)
		_, _ = c.Write(answer[:])
		return nil, them, fmt.Errorf("%w: wrong secret", ErrAuth)
	}
	in, out, err := frameCiphers(secret, private, &them, theirs[:], mine[:])
	if err != nil {
		return nil, them, err
	}
	v := admit(them)
	answer[0] = byte(v)
	_ = c.SetDeadline(time.Now().Add(handshakeTimeout)) // this process may have been stopped past the first deadline
	copy(answer[8:], seal(secret, "acceptor", theirs[:], mine[:], answer[:8]))
	_, err = c.Write(answer[:])
	if v != verdictOK {
		return nil, them, v.err()
	}
	_ = c.SetDeadline(time.Time{})
	return newFrameConn(c, in, out), them, err
}

// readDialer reads the dialer's greeting. It checks the beginning first, so that a connection of another protocol is
// dropped at once and not at the deadline. A dialer of a release with which this one cannot speak may complain:
// admit gets the rank that does.
func (g *greeting) readDialer(c net.Conn, secret []byte, admit func(greeting) verdict) (b [greetingSize]byte,
	them greeting, err error) {
	if _, err := io.ReadFull(c, b[:versionEnd]); err != nil {
		return b, them, err
	}
	switch version, err := checkVersion(b[:]); {
	case errors.Is(err, errRelease):
		them = greeting{version: version, rank: -1}
		if _, err := g.begin(c); err != nil {
			return b, them, err
		}
		mine := g.encode()
		_, _ = c.Write(mine[:])
		_ = c.SetDeadline(time.Now().Add(complaintWait))
		if rank, ok := receiveComplaint(c, secret, mine[:]); ok {
			them.rank = rank
			admit(them)
		}
		return b, them, err
	case err != nil:
		return b, them, err
	}
	_, err = io.ReadFull(c, b[versionEnd:])
	return b, them, noEOF(err)
}
