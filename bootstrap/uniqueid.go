package bootstrap

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/internal/sockets"
)

// A UniqueID identifies one job: the address of its root and the secret that its ranks prove to know. It is a
// credential: give it only to the ranks.
//
//	  0  magic "GCID"
//	  4  version 1
//	  5  flags: 1 = rank 0 serves the root (made from NCCL_COMM_ID)
//	  6  two zero bytes
//	  8  address, 20 bytes: family 4 or 6, 0, port u16, 16 bytes
//	 28  four zero bytes
//	 32  secret
//	 64  the process that made it, for errors
//	 96  zero
//	112  the first 16 bytes of SHA-256 over all bytes before, against corruption in transit
type UniqueID [UniqueIDSize]byte

// UniqueIDSize is the size in bytes, the same as ncclUniqueId's.
const UniqueIDSize = 128

const (
	uniqueIDMagic   = "GCID"
	uniqueIDVersion = 1
	flagRankZero    = 1
	uniqueIDSum     = 112
)

type idFields struct {
	flags  byte
	addr   netip.AddrPort
	secret [32]byte
	maker  origin // zero if every process makes the id itself
}

func (f idFields) encode() (id UniqueID) {
	copy(id[0:], uniqueIDMagic)
	id[4] = uniqueIDVersion
	id[5] = f.flags
	w := toWire(f.addr)
	copy(id[8:], w[:])
	copy(id[32:], f.secret[:])
	copy(id[64:], f.maker[:])
	sum := sha256.Sum256(id[:uniqueIDSum])
	copy(id[uniqueIDSum:], sum[:])
	return id
}

func (id UniqueID) decode() (f idFields, err error) {
	bad := func(why string) (idFields, error) {
		return idFields{}, fmt.Errorf("%w: not a UniqueID: %s", ErrInvalid, why)
	}
	if string(id[:4]) != uniqueIDMagic {
		return bad("wrong magic; every rank must get the id that NewUniqueID made")
	}
	if id[4] != uniqueIDVersion {
		return bad(fmt.Sprintf("version %d, this is version %d", id[4], uniqueIDVersion))
	}
	if sum := sha256.Sum256(id[:uniqueIDSum]); !bytes.Equal(sum[:UniqueIDSize-uniqueIDSum], id[uniqueIDSum:]) {
		return bad("wrong checksum, it was damaged on the way")
	}
	ap, ok := wireAddr(id[8:28]).addrPort()
	if !ok || ap.Port() == 0 || ap.Addr().IsUnspecified() {
		return bad("no address")
	}
	f.flags, f.addr = id[5], ap
	copy(f.secret[:], id[32:64])
	copy(f.maker[:], id[64:96])
	if f.encode() != id {
		return bad("unknown flags or padding")
	}
	return f, nil
}

// ParseUniqueID checks b, which must be UniqueIDSize bytes.
func ParseUniqueID(b []byte) (id UniqueID, err error) {
	if len(b) != UniqueIDSize {
		return id, fmt.Errorf("%w: a UniqueID has %d bytes, not %d", ErrInvalid, UniqueIDSize, len(b))
	}
	copy(id[:], b)
	_, err = id.decode()
	return id, err
}

// String returns the root's address, never the secret.
func (id UniqueID) String() string {
	f, err := id.decode()
	if err != nil {
		return "UniqueID(invalid)"
	}
	return fmt.Sprintf("UniqueID(%s)", f.addr)
}

// GoString is String, so that %#v does not print the secret either.
func (id UniqueID) GoString() string { return id.String() }

// NewUniqueID makes an id and starts its root in this process, on one address of one interface. The root ends when
// every rank has joined, when no rank joins within its lifetime, when a rank gives up, or with [UniqueID.Close]. If it
// failed before all ranks joined, it sends the reason to late ranks, for up to 30 s. A rank whose connections to the
// id's address are refused gives up after 50 ms if that is on its host, else after 0.7 s.
//
// With NCCL_COMM_ID=host:port the id contains that address instead, every process may make it for itself, and rank 0
// serves it.
func NewUniqueID(opts ...Option) (UniqueID, error) {
	c, err := newConfig(opts)
	if err != nil {
		return UniqueID{}, fail("NewUniqueID", -1, -1, err)
	}
	id, err := newUniqueID(c)
	if err != nil {
		return UniqueID{}, fail("NewUniqueID", -1, -1, err)
	}
	return id, nil
}

func newUniqueID(c *config) (id UniqueID, err error) {
	if c.commID != "" {
		return commID(c, c.commID)
	}
	ip, err := localAddr(c.iface, c.family)
	if err != nil {
		return id, err
	}
	l, err := sockets.Listen("tcp", netip.AddrPortFrom(ip, 0).String())
	if err != nil {
		return id, err
	}
	f := idFields{addr: l.Addr().(*net.TCPAddr).AddrPort(), maker: ownOrigin()}
	_, _ = rand.Read(f.secret[:]) // never fails
	id = f.encode()
	r := newRoot(c, []net.Listener{l}, f.secret[:], l.Addr().String(), attempt{})
	liveRoots.Store(id, r)
	r.serve(func() { liveRoots.Delete(id) })
	closeUnused(keptUnused, unusedAge)
	return id, nil
}

func commID(c *config, s string) (id UniqueID, err error) {
	a, err := parseAddress(s)
	if err != nil || a.unix != "" {
		return id, fmt.Errorf("NCCL_COMM_ID: %w", err)
	}
	ctx, cancel := stepContext(context.Background(), c.timeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", a.host)
	if err != nil {
		return id, fmt.Errorf("NCCL_COMM_ID=%s: %w", s, err)
	}
	ap := netip.AddrPortFrom(ips[0].Unmap(), a.port)
	f := idFields{flags: flagRankZero, addr: ap, secret: [32]byte(secretFor(a, c.secret))}
	return f.encode(), nil
}

// Close ends the root if this process serves it and it still waits for ranks, or serves late ones.
func (id UniqueID) Close() error {
	if r := liveRoot(id); r != nil {
		r.lateError.close()
		r.fail(-1, verdictOK, "the root was closed")
		<-r.done
	}
	return nil
}

// liveRoots holds the roots that this process serves for ids.
var liveRoots sync.Map // UniqueID → *root

// An id that no rank joins costs its process a listening socket until its lifetime ends. A process that makes many such
// ids keeps the newest and the recent ones, because their ranks may be about to join.
const (
	keptUnused = 64
	unusedAge  = time.Minute
)

// closeUnused ends roots that no rank has joined, the oldest first, until the given number is left or the others are
// younger than age.
func closeUnused(most int, age time.Duration) {
	var unused []*root
	liveRoots.Range(func(_, v any) bool {
		if r := v.(*root); !r.joined() && !r.expected() {
			unused = append(unused, r)
		}
		return true
	})
	slices.SortFunc(unused, func(a, b *root) int { return a.made.Compare(b.made) })
	for _, r := range unused[:max(0, len(unused)-most)] {
		if time.Since(r.made) < age {
			return
		}
		r.fail(-1, verdictOK, fmt.Sprintf("nobody joined within %v, and this process has made %d other ids", age, most))
	}
}

func liveRoot(id UniqueID) *root {
	if r, ok := liveRoots.Load(id); ok {
		return r.(*root)
	}
	return nil
}
