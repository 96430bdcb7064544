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
	"sync"
	"time"

	"github.com/goccl/goccl/internal/sockets"
)

// maxDials bounds a rank's concurrent handshakes.
const maxDials = 32

// meshListeners accept the connections of higher ranks, on this host and on others.
type meshListeners struct {
	unix net.Listener
	tcp  []net.Listener // none if the job is on one host by construction
	self member
}

func (m *meshListeners) close() {
	for _, l := range m.all() {
		_ = l.Close()
	}
}

func (m *meshListeners) all() []net.Listener { return append([]net.Listener{m.unix}, m.tcp...) }

// listenMesh opens the listeners, on all of this host's addresses that other hosts may reach. The first one must be
// possible; without addresses no rank is on another host.
func listenMesh(c *config, ips []netip.Addr) (*meshListeners, error) {
	m := &meshListeners{self: member{host: hostID(c.hostID), process: [16]byte(processID())}}
	var err error
	if m.unix, m.self.unix, err = listenUnix(); err != nil {
		return nil, err
	}
	for _, ip := range ips[:min(len(ips), maxMeshAddrs)] {
		l, err := sockets.Listen("tcp", netip.AddrPortFrom(ip, 0).String())
		switch {
		case err == nil:
			m.self.tcp[len(m.tcp)] = wireOf(l.Addr())
			m.tcp = append(m.tcp, l)
		case ip == ips[0]:
			m.close()
			return nil, err
		}
	}
	return m, nil
}

// connectMesh opens one connection to every peer. It dials lower ranks and accepts connections from higher ranks.
func connectMesh(ctx context.Context, c *config, d *dialer, rank int, t *table, ls *meshListeners) ([]*frameConn,
	error) {
	world := len(t.members)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	var mu sync.Mutex
	conns := make([]*frameConn, world)
	reserved := make([]bool, world)
	missing := world - 1
	complete := make(chan struct{})
	if missing == 0 {
		close(complete)
	}
	add := func(peer int, fc *frameConn) {
		mu.Lock()
		defer mu.Unlock()
		conns[peer] = fc
		if missing--; missing == 0 {
			close(complete)
		}
	}

	g := &acceptor{
		listeners: ls.all(), secret: d.secret, log: c.log.With("rank", rank),
		greet: func() greeting {
			return greeting{role: roleAcceptor, world: uint32(world), rank: int32(rank), session: t.session}
		},
		admit: func(them greeting) verdict {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case them.world != uint32(world):
				return verdictWorld
			case them.rank <= int32(rank) || them.rank >= int32(world):
				return verdictRange
			case them.session != t.session || them.target != int32(rank):
				return verdictProtocol
			case reserved[them.rank]:
				return verdictDuplicate
			}
			reserved[them.rank] = true
			return verdictOK
		},
		abandon: func(them greeting) {
			mu.Lock()
			defer mu.Unlock()
			reserved[them.rank] = false
		},
		enter: func(fc *frameConn, them greeting) {
			sockets.Tune(fc.c, c.partition)
			add(int(them.rank), fc)
		},
		starved: func(err error) { cancel(err) },
	}
	g.serve()

	var dials sync.WaitGroup
	places := make(chan struct{}, maxDials)
	for peer := rank - 1; peer >= 0; peer-- {
		dials.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			fc, err := d.dialPeer(ctx, c, rank, peer, t, ls, 0)
			if err != nil {
				if ctx.Err() == nil {
					cancel(&blame{peer, err})
				}
				return
			}
			add(peer, fc)
		})
	}

	var err error
	select {
	case <-complete:
	case <-ctx.Done():
		err = contextError(ctx)
		mu.Lock()
		absent := missingRanks(world, func(r int) bool { return r == rank || conns[r] != nil })
		mu.Unlock()
		if len(absent) > 0 && errors.Is(err, ErrTimeout) {
			err = fmt.Errorf("%w; no connection with ranks %s", err, rankList(absent))
		}
	}
	cancel(nil)
	dials.Wait()
	g.shut()
	g.wait()
	if err != nil {
		dropConns(conns)
		return nil, err
	}
	return conns, nil
}

// dialPeer connects to a lower rank. It tests whether the peer is on this host, unless a configured host id of either
// side decides that.
func (d *dialer) dialPeer(ctx context.Context, c *config, rank, peer int, t *table, ls *meshListeners,
	gone time.Duration) (*frameConn, error) {
	me := greeting{role: roleDialer, world: uint32(len(t.members)), rank: int32(rank), target: int32(peer),
		session: t.session}
	return d.dialMember(ctx, c, me, &t.members[peer], ls, gone)
}

// dialMember connects to the rank that me names as its target. It is given up when its address has refused connections
// for gone, unless that is 0.
func (d *dialer) dialMember(ctx context.Context, c *config, me greeting, p *member, ls *meshListeners,
	gone time.Duration) (*frameConn, error) {
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
		fc, them, err = d.dialKnown(ctx, tcpTargets(at), me, gone)
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

// addresses lists where a member listens: first what is most like an address from which this rank has reached another
// host.
func (m *member) addresses(local netip.Addr) (list []netip.AddrPort) {
	for _, w := range m.tcp {
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
