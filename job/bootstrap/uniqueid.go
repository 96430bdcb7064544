package bootstrap

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// A UniqueID identifies one job: the addresses of its root and the secret that its ranks prove to know. It is a
// credential: give it only to the ranks.
//
//	  0  magic "GCID"
//	  4  version 2
//	  5  flags: 1 = rank 0 serves the root (made from NCCL_COMM_ID)
//	  6  the number of further IPv4 addresses
//	  7  the number of further IPv6 addresses, 0 or 1
//	  8  address, 20 bytes: family 4 or 6, 0, port u16, 16 bytes
//	 28  a further IPv4 address, with the same port, or zero
//	 32  secret
//	 64  the process that made it, for errors
//	 96  a further IPv6 address, or up to four IPv4 addresses, or zero
//	112  the first 16 bytes of SHA-256 over all bytes before, against corruption in transit
type UniqueID [UniqueIDSize]byte

// UniqueIDSize is the size in bytes, the same as ncclUniqueId's.
const UniqueIDSize = 128

const (
	uniqueIDMagic   = "GCID"
	uniqueIDVersion = 2
	flagRankZero    = 1
	uniqueIDSum     = 112
	maxIDAddrs      = 6
)

type idFields struct {
	flags  byte
	addr   netip.AddrPort
	more   []netip.Addr // further addresses with the same port, up to the room of the id
	secret [32]byte
	maker  origin // zero if every process makes the id itself
}

// targets lists the addresses of the root, in the order of the maker's interfaces.
func (f *idFields) targets() []target {
	list := []netip.AddrPort{f.addr}
	for _, a := range f.more {
		list = append(list, netip.AddrPortFrom(a, f.addr.Port()))
	}
	return tcpTargets(list)
}

// putMore writes further addresses into the bytes at 28 and 96.
func (f *idFields) putMore(id *UniqueID) {
	v4 := [][]byte{id[28:32], id[96:100], id[100:104], id[104:108], id[108:112]}
	for _, a := range f.more {
		switch a = a.Unmap(); {
		case a.Is4() && int(id[6]) < len(v4) && (id[7] == 0 || id[6] == 0):
			copy(v4[id[6]], a.AsSlice())
			id[6]++
		case a.Is6() && id[6] <= 1 && id[7] == 0:
			copy(id[96:112], a.AsSlice())
			id[7]++
		}
	}
}

func (id *UniqueID) more() (list []netip.Addr, err error) {
	if id[6] > 5 || id[7] > 1 || id[7] == 1 && id[6] > 1 {
		return nil, fmt.Errorf("%d and %d further addresses", id[6], id[7])
	}
	v4 := [][]byte{id[28:32], id[96:100], id[100:104], id[104:108], id[108:112]}
	for i := range int(id[6]) {
		list = append(list, netip.AddrFrom4([4]byte(v4[i])))
	}
	if id[7] == 1 {
		list = append(list, netip.AddrFrom16([16]byte(id[96:112])))
	}
	if slices.ContainsFunc(list, netip.Addr.IsUnspecified) {
		return nil, errors.New("a further address is a wildcard")
	}
	return list, nil
}

func (f idFields) encode() (id UniqueID) {
	copy(id[0:], uniqueIDMagic)
	id[4] = uniqueIDVersion
	id[5] = f.flags
	w := toWire(f.addr)
	copy(id[8:], w[:])
	copy(id[32:], f.secret[:])
	copy(id[64:], f.maker[:])
	f.putMore(&id)
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
	if f.more, err = id.more(); err != nil {
		return bad(err.Error())
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

// NewUniqueID makes an id and starts its root in this process, on one port of the interfaces that are chosen, each with
// one address: ranks use the first that they reach. The root ends when
// every rank has joined, when no rank joins within its lifetime, when a rank gives up, or with [UniqueID.Close]. If it
// failed before all ranks joined, it sends the reason to late ranks, for up to 30 s. A rank whose connections to the
// id's address are refused gives up after 50 ms if that is on its host, else after 0.7 s.
//
// With NCCL_COMM_ID=host:port the id contains that address instead, every process may make it for itself, and rank 0
// serves it.
func NewUniqueID(opts ...Option) (id UniqueID, err error) {
	c, err := newConfig(opts)
	if err == nil {
		id, err = newUniqueID(c)
	}
	if err != nil {
		return UniqueID{}, fail("NewUniqueID", -1, -1, err)
	}
	return id, nil
}

func newUniqueID(c *config) (id UniqueID, err error) {
	if c.commID != "" {
		return commID(c, c.commID)
	}
	nics, err := localNICs(c.iface, c.family)
	if err != nil {
		return id, err
	}
	ls, err := listenAll(nics, maxIDAddrs)
	if err != nil {
		return id, err
	}
	f := idFields{addr: ls[0].Addr().(*net.TCPAddr).AddrPort(), more: addresses(ls[1:]), maker: ownOrigin()}
	_, _ = rand.Read(f.secret[:]) // never fails
	id = f.encode()
	r := newRoot(c, ls, f.secret[:], ls[0].Addr().String(), attempt{})
	process.roots.Store(id, r)
	r.serve(func() { process.roots.Delete(id) })
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
	// A rank without the variable uses the addresses. A name that leads to the loopback (Debian's 127.0.1.1) is this
	// host's, and other hosts know it by an address of an interface.
	if a.namesLoopback(ips) {
		if nics, err := localNICs(c.iface, c.family); err == nil {
			for _, n := range nics {
				ips = slices.Insert(ips, 0, n.Addr)
			}
		}
	}
	f := idFields{flags: flagRankZero, addr: netip.AddrPortFrom(ips[0].Unmap(), a.port),
		secret: [32]byte(secretFor(a, c.secret))}
	for _, ip := range ips[1:] {
		f.more = append(f.more, ip.Unmap())
	}
	return f.encode(), nil
}

// Close ends the root if this process serves it and it still waits for ranks, or serves late ones.
func (id UniqueID) Close() error {
	if r := liveRoot(id); r != nil {
		r.leave()
		r.fail(-1, verdictOK, "the root was closed")
		<-r.done
	}
	return nil
}

// process is what this process shares between its jobs. All of it is about the process itself, so it is not part of
// a job: an id is the only thing that a caller of NewUniqueID and of JoinID have in common.
var process processState

type processState struct {
	roots    sync.Map       // The roots that this process serves: UniqueID → *root.
	used     usedIDs        // The ids by which ranks of this process have joined.
	liveness sharedLiveness // The page that shows peers the death of this process.
	weak     sync.Once      // The warning about a weak secret was logged.
}

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
	process.roots.Range(func(_, v any) bool {
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
	if r, ok := process.roots.Load(id); ok {
		return r.(*root)
	}
	return nil
}
