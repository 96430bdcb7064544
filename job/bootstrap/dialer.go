package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goccl/goccl/internal/netif"
	"github.com/goccl/goccl/internal/openfiles"
	"github.com/goccl/goccl/internal/sockets"
)

// blame is an error cause with the rank to blame.
type blame struct {
	peer int
	error
}

func (b *blame) Unwrap() error { return b.error }

// dialer opens authenticated connections on behalf of one rank.
type dialer struct {
	secret    []byte
	partition time.Duration
	nics      []netif.NIC // none: the system's choice
	local     netip.Addr  // from which the root was reached
	onlyHere  bool        // the root's address is the loopback for all ranks
	log       *slog.Logger
}

// A root that was up is given up when its address has refused connections for some time, and at least goneRefusals
// times. A busy listener does not refuse; the kernel refuses where there is no listener. This host's kernel is right at
// once. Between hosts something else may refuse for a moment. An agreed address may be taken by the next attempt of the
// job.
const (
	goneHere     = 50 * time.Millisecond
	goneFar      = 700 * time.Millisecond
	goneMember   = time.Millisecond // a member of a job has listened since it joined, so goneRefusals are enough
	goneAfter    = 3 * time.Second
	goneRefusals = 5
	// briefly is how long a connection may take to an address beside which there are others.
	briefly = time.Second
)

// goneFrom is how long refusals of an address must last, at which a root was.
func goneFrom(at netip.Addr) time.Duration {
	own, _ := net.InterfaceAddrs()
	if at.IsLoopback() || slices.ContainsFunc(own, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap() == at.Unmap()
	}) {
		return goneHere
	}
	return goneFar
}

// dial tries the targets in turn until it is admitted, a verdict rejects it, or ctx ends. A refused connection, or one
// that ends before a verdict, is retried: the other side may not be up yet. It gives up if the other side is known to
// have been up and then refuses connections for gone, unless that is 0. A greeting without a verdict also makes it
// known; then the time is goneAfter.
func (d *dialer) dial(ctx context.Context, targets []target, me greeting, gone time.Duration) (*frameConn,
	greeting, error) {
	var last error
	var run refusals
	var shortage openfiles.Shortage
	var way wayless
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		refused, silent := 0, 0
		for _, t := range targets {
			fc, them, err := d.try(ctx, t, me)
			if err == nil {
				return fc, them, nil
			}
			cut := over(ctx)
			// An attempt that the end of ctx cut short gives no information about the other side.
			if !cut || last == nil {
				last = fmt.Errorf("%s: %w", t.address, err)
			}
			if !cut && (!errors.As(err, new(errRetry)) || shortage.Lasts(err)) {
				return nil, them, last
			}
			if err := way.judge(err, len(targets), d.log); err != nil && !cut {
				return nil, them, err
			}
			if gone == 0 && them.version != 0 {
				gone = goneAfter
			}
			if errors.Is(err, syscall.ECONNREFUSED) {
				refused++
			} else if t.brief && them.version == 0 {
				silent++
			}
		}
		if run.add(refused, silent, len(targets), gone) {
			return nil, greeting{}, fmt.Errorf("%w: nobody listens there any more: its process has ended, or it has finished "+
				"with the job without this rank, or an earlier job has used the id: each needs its own; %d attempts in %v, "+
				"the last: %w",
				ErrPeerDead, run.count, time.Since(run.since).Round(time.Millisecond), last)
		}
		// The jitter spreads the retries of ranks that were rejected together.
		if err := pause(ctx, wait/2+rand.N(wait)); err != nil {
			return nil, greeting{}, fmt.Errorf("%w; last attempt: %w", err, last)
		}
	}
}

// refusals is a run of attempts in which every target has refused the connection, or was silent.
type refusals struct {
	since time.Time // The time of the first one.
	count int
}

// add counts an attempt. It returns true if the run shows that a side that was up is gone: it has lasted for gone.
func (r *refusals) add(refused, silent, targets int, gone time.Duration) bool {
	limit := gone
	if silent > 0 {
		limit = max(limit, goneAfter) // the address that refuses may be another host's
	}
	if refused == 0 || refused+silent < targets {
		r.count = 0
		return false
	}
	if r.count++; r.count == 1 {
		r.since = time.Now()
	}
	return gone > 0 && r.count >= goneRefusals && time.Since(r.since) >= limit
}

// over reports whether ctx has ended or its deadline has passed: on a busy machine a socket's deadline may fire before
// the deadline of ctx.
func over(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(end)
}

func (d *dialer) try(ctx context.Context, t target, me greeting) (*frameConn, greeting, error) {
	attempt, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	nd := net.Dialer{}
	if t.brief {
		nd.Timeout = briefly
	}
	if len(d.nics) > 0 {
		nd.Control = bindFrom(d.nics)
	}
	c, err := nd.DialContext(attempt, t.network, t.address)
	switch {
	case errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM):
		return nil, greeting{}, err
	case err != nil: // also a name that does not exist yet, for example of a pod that is starting
		return nil, greeting{}, errRetry{err}
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // not a deadline, because the handshake would overwrite it
	defer stop()
	sockets.Tune(c, d.partition)
	fc, them, err := (*frameConn)(nil), greeting{}, checkPeer(c)
	if err == nil {
		deadline, _ := attempt.Deadline()
		end, _ := ctx.Deadline()
		fc, them, err = shakeDialer(c, d.secret, me, deadline, end)
	}
	if err != nil {
		_ = c.Close()
		if ctx.Err() != nil {
			err = errRetry{contextError(ctx)}
		}
		return nil, them, err
	}
	return fc, them, nil
}

// wayless judges the errors of attempts for which this host has no route.
type wayless struct {
	families []string // without an address on this host, by target
	warned   bool
}

// judge returns an error if this host has no address of the family of any of so many targets: then no attempt can
// succeed. It warns once of a missing route, which may come.
func (w *wayless) judge(err error, targets int, log *slog.Logger) error {
	var op *net.OpError
	if !errors.Is(err, syscall.ENETUNREACH) && !errors.Is(err, syscall.EADDRNOTAVAIL) &&
		!errors.Is(err, syscall.EAFNOSUPPORT) || !errors.As(err, &op) {
		w.families = nil
		return nil
	}
	at, ok := op.Addr.(*net.TCPAddr)
	if !ok {
		return nil
	}
	to := at.AddrPort().Addr().Unmap()
	if netif.Reaches(to) || to.IsLoopback() {
		w.families = nil
		if !w.warned && log != nil {
			w.warned = true
			log.Warn("bootstrap: no connection with another rank's address; trying again", "to", to, "error",
				sockets.Explain(err), "interfaces", netif.List())
		}
		return nil
	}
	if w.families = append(w.families, to.String()); len(w.families) < targets {
		return nil
	}
	return fmt.Errorf("%w: no way to %s: %w", ErrInvalid, strings.Join(w.families, ", "), familyMissing(to, err))
}

func familyMissing(to netip.Addr, err error) error {
	family, other := "IPv4", "AF_INET6"
	if to.Is6() {
		family, other = "IPv6", "AF_INET"
	}
	return fmt.Errorf("this host has no %s address besides the loopback, up are %s; give it one, or set "+
		"NCCL_SOCKET_FAMILY=%s on all ranks if all hosts have that: %w", family, netif.List(), other, err)
}

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
