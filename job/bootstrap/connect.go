package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"slices"

	"github.com/goccl/goccl/internal/sockets"
)

// maxDials bounds a rank's concurrent handshakes.
const maxDials = 32

// listeners accept the connections of other ranks, on this host and on others.
type listeners struct {
	unix net.Listener
	tcp  []net.Listener // none if the job is on one host by construction
	self member
}

func (m *listeners) close() { closeListeners(m.all()) }

func closeListeners(ls []net.Listener) {
	for _, l := range ls {
		_ = l.Close()
	}
}

func (m *listeners) all() []net.Listener { return append([]net.Listener{m.unix}, m.tcp...) }

// openListeners opens the listeners, on all of this host's addresses that other hosts may reach. The first one must be
// possible; without addresses no rank is on another host.
func openListeners(c *config, ips []netip.Addr) (*listeners, error) {
	host, err := hostID(c.hostID)
	if err != nil {
		return nil, err
	}
	m := &listeners{self: member{host: host, process: [16]byte(processID())}}
	if m.unix, m.self.unix, err = listenUnix(); err != nil {
		return nil, err
	}
	for _, ip := range ips[:min(len(ips), maxMeshAddrs)] {
		l, err := sockets.Listen("tcp", netip.AddrPortFrom(ip, 0).String())
		switch {
		case err == nil:
			if n := len(m.tcp); n == 0 {
				m.self.tcp = wireOf(l.Addr())
			} else {
				m.self.more[n-1] = wireOf(l.Addr())
			}
			m.tcp = append(m.tcp, l)
		case ip == ips[0]:
			m.close()
			return nil, err
		}
	}
	return m, nil
}

// dialPeer connects to a rank for a purpose.
func (o *overlay) dialPeer(ctx context.Context, peer int, p purpose) (*frameConn, error) {
	return o.d.dialMember(ctx, o.c, o.greeting(peer, p), &o.t.members[peer], o.ls)
}

func (o *overlay) greeting(peer int, p purpose) greeting {
	return greeting{role: roleDialer, purpose: p, world: uint32(o.e.size), rank: int32(o.e.rank), target: int32(peer),
		session: o.t.session}
}

// dialMember connects to the rank that me names as its target: by its unix socket if that may lead there, else by TCP.
// The rank is given up when its address has refused connections for goneFar, or a neighbour's for goneMember.
func (d *dialer) dialMember(ctx context.Context, c *config, me greeting, p *member, ls *listeners) (*frameConn,
	error) {
	rank, peer, told := int(me.rank), int(me.target), c.hostID != ""
	fc, them, err := (*frameConn)(nil), greeting{}, errNotHere
	if p.host == ls.self.host {
		fc, them, err = d.dialHere(ctx, p.unix, me)
		if told && errors.Is(err, errNotHere) {
			return nil, fmt.Errorf("%w: GOCCL_HOSTID or NCCL_HOSTID says that rank %d is on this host, but %s: %w", ErrInvalid,
				peer, wayOut, err)
		}
		if errors.Is(err, errOtherUser) {
			c.log.Warn("bootstrap: a peer's socket on this host belongs to another user: it counts as on another host", "rank",
				rank, "peer", peer, "error", err)
		}
	}
	if errors.Is(err, errNotHere) {
		at := p.addresses(d.local)
		if len(at) == 0 || len(ls.tcp) == 0 {
			return nil, fmt.Errorf("%w: rank %d is on another host, but the ranks met on a unix socket; set MASTER_ADDR and "+
				"MASTER_PORT: %w", ErrInvalid, peer, err)
		}
		gone := goneFar
		if me.purpose == purposeResume || me.purpose == purposeMeet {
			gone = goneMember
		}
		fc, them, err = d.dial(ctx, tcpTargets(at), me, gone)
	}
	if err != nil {
		return nil, err
	}
	if them.rank != int32(peer) || them.session != me.session {
		fc.close()
		return nil, fmt.Errorf("%w: rank %d answers at the address of rank %d", ErrProtocol, them.rank, peer)
	}
	return fc, nil
}

// addresses lists where a member listens: first the address most like the one from which this rank has reached another
// host.
func (m *member) addresses(local netip.Addr) (list []netip.AddrPort) {
	for _, w := range append([]wireAddr{m.tcp}, m.more[:]...) {
		if ap, ok := w.addrPort(); ok {
			list = append(list, ap)
		}
	}
	slices.SortStableFunc(list, func(a, b netip.AddrPort) int {
		return cmp.Compare(common(b.Addr(), local), common(a.Addr(), local))
	})
	return list
}

// common counts the leading bits that two addresses have in common.
func common(a, b netip.Addr) int {
	x, y := a.AsSlice(), b.AsSlice()
	if len(x) != len(y) {
		return -1
	}
	for i := range x {
		if x[i] != y[i] {
			return 8*i + bits.LeadingZeros8(x[i]^y[i])
		}
	}
	return 8 * len(x)
}
