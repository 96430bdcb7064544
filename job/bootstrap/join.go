package bootstrap

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/goccl/goccl/internal/netif"
	"github.com/goccl/goccl/internal/plain"
)

// joiner is a rank that joins.
type joiner struct{ rank, world int }

// join runs the steps of the package documentation. After an error no resource stays open.
func (j *joiner) join(ctx context.Context, c *config, where func(*config) (meeting, error)) (g *group, r *root,
	err error) {
	m, err := where(c)
	if err != nil {
		return nil, nil, err
	}
	if m.weak && j.world > 1 {
		process.warnWeak(c.log)
	}
	ctx, stop := stepContext(ctx, c.timeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	note := "" // a possible reason why the other ranks do not join
	if j.rank == 0 && m.address != nil {
		if r, note, err = j.serveRoot(ctx, c, &m); err != nil {
			return nil, nil, err
		}
		defer func() {
			if err != nil {
				r.giveUp(err)
				r = nil
			}
		}()
	}
	if note == "" && m.loopback() {
		note = onlyHere
	}

	d := &dialer{secret: m.secret, partition: c.partition, log: c.log, onlyHere: m.loopback()}
	if m.iface != "" {
		if d.nics, err = localNICs(m.iface, c.family); err != nil {
			return nil, r, err
		}
	}

	// 1. Meet the root.
	me := greeting{role: roleJoiner, world: uint32(j.world), rank: int32(j.rank), target: -1, session: m.attempt,
		from: ownOrigin()}
	fc, them, err := d.dial(ctx, m.targets, me, m.gone)
	if err != nil {
		return nil, r, m.noRoot(j.rank, err)
	}
	rc := newRootClient(fc, int(them.rank), c.timeout, note, cancel, nil)
	defer rc.close()
	g, err = j.connect(ctx, cancel, c, d, rc)
	return g, r, err
}

// serveRoot starts the root of an agreed address in rank 0. note is a possible reason why the other ranks do not join.
func (j *joiner) serveRoot(ctx context.Context, c *config, m *meeting) (r *root, note string, err error) {
	ls, note, err := m.address.claim(ctx, c, m.iface)
	if err != nil {
		return nil, "", err
	}
	if note != "" {
		c.log.Warn("bootstrap: " + note)
	}
	c.world = j.world
	r = newRoot(c, ls, m.secret, m.address.String(), m.attempt)
	r.a.rank = j.rank
	r.leave() // free the address for the next attempt
	r.serve(func() {})
	m.targets = []target{outward(ls)}
	return r, note, nil
}

// connect is what join does after it has met the root. Every rank is below another one in a tree whose top is the root;
// in a job with a complete overlay all are directly below the root.
func (j *joiner) connect(ctx context.Context, cancel context.CancelCauseFunc, c *config, d *dialer,
	rc *rootClient) (g *group, err error) {
	// 2. Send our addresses.
	ls, err := openListeners(c, d.listenIPs(rc.fc.c, c.family))
	if err != nil {
		return nil, rc.giveUp(err)
	}
	o := newOverlay(c, d, ls, j.rank, j.world)
	b := &branch{c: c, below: map[int]*frameConn{}}
	o.gate = newGate(o, b, cancel)
	defer func() {
		if err != nil {
			err = o.gate.reason(err)
			b.down(frameFail, reasonOf(err))
			o.e.abandon(ErrClosed)
			o.abandon()
		}
		b.close()
	}()
	if page, err := process.liveness.acquire(); err == nil {
		o.live, ls.self.liveness = true, page.ticket
	} else {
		c.log.Debug("bootstrap: peers will notice our death by our sockets alone", "rank", j.rank, "error", err)
	}
	if err := rc.pass(frameJoin, 0, 0, plain.Bytes(&ls.self)); err != nil {
		return nil, hungUp(ctx)
	}

	// 3. Get a parent, connect to it, and let the root go.
	up, err := b.attach(ctx, o, rc)
	if err != nil {
		return nil, err
	}
	if up != rc {
		defer up.close()
		rc.close()
	}
	if err := o.assemble(ctx, up); err != nil {
		return nil, err
	}
	if g, err = newGroup(o.e, 0, Everyone(j.world)); err != nil {
		return nil, err
	}
	o.start()
	return g, nil
}

// assemble does the rest of the joining over the way up. What comes from above is passed to the ranks below meanwhile.
func (o *overlay) assemble(ctx context.Context, up *rootClient) error {
	raw, err := up.await(ctx, up.table)
	if err != nil {
		return err
	}
	tab, err := decodeTable(raw, o.e.size)
	if err != nil {
		return up.giveUp(err)
	}

	// 4. Connect to our neighbours, and find out which host we are on.
	o.t = &tab
	if err := o.connect(ctx); err != nil {
		return up.giveUp(err)
	}
	here, err := o.meetHost(ctx)
	if err != nil {
		return up.giveUp(err)
	}
	if o.e.m.complete && !o.far() {
		o.gate.shut()
	}

	// 5. Wait for all other ranks.
	if err := up.pass(frameReady, 0, 0, here[:]); err != nil {
		return hungUp(ctx)
	}
	if raw, err = up.await(ctx, up.start); err != nil {
		return err
	}
	o.e.hosts, err = decodeHosts(raw, o.e.size)
	return err
}

// hungUp returns the reason for a broken connection to the root. The reader has the root's last message, and ends the
// joining with it.
func hungUp(ctx context.Context) error {
	<-ctx.Done()
	return contextError(ctx)
}

// listenIPs returns the addresses where peers on other hosts may reach us: first the one from which this rank has
// reached the root, which may be on this host, and then one of each other interface. It returns only the first if the
// root's address is the loopback for all ranks, and none if the root was met on a unix socket.
func (d *dialer) listenIPs(c net.Conn, family int) []netip.Addr {
	a, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return nil
	}
	d.local = a.AddrPort().Addr().Unmap()
	ips, nics := []netip.Addr{d.local}, d.nics
	if d.onlyHere {
		return ips
	}
	if len(nics) == 0 {
		nics, _ = netif.NICs("", family) // what was met without a choice is enough
	}
	for _, n := range nics {
		if !slices.Contains(n.Addrs, d.local) && !n.Loopback {
			ips = append(ips, n.Addr)
		}
	}
	return ips
}

// meetHost returns a digest that the ranks of this rank's host have in common: it tells the lowest of them that this
// rank meets on a unix socket. Ranks of other places cannot be met (place). With a configured host id they must be.
func (o *overlay) meetHost(ctx context.Context) (here [32]byte, err error) {
	for p := range o.t.members {
		if o.t.members[p].host != o.ls.self.host {
			continue
		}
		met, err := o.meets(ctx, p)
		if err != nil {
			return here, &blame{p, err}
		}
		if met {
			here = sha256.Sum256(binary.LittleEndian.AppendUint32(o.ls.self.host[:], uint32(p)))
			break
		}
	}
	return here, nil
}

// meets returns true if peer, a rank of this rank's place, can be reached by its unix socket.
func (o *overlay) meets(ctx context.Context, peer int) (bool, error) {
	if peer == o.e.rank {
		return true, nil
	}
	if n := o.neighbours[peer]; n != nil {
		return isHere(n.l.fc), nil
	}
	fc, _, err := o.d.dialHere(ctx, o.t.members[peer].unix, o.greeting(peer, purposeMeet))
	switch {
	case err == nil:
		fc.close()
		return true, nil
	case !errors.Is(err, errNotHere):
		return false, err
	case o.c.hostID != "":
		return false, fmt.Errorf("%w: GOCCL_HOSTID or NCCL_HOSTID says that rank %d is on this host, but %s: %w", ErrInvalid,
			peer, wayOut, err)
	}
	return false, nil
}

// JoinID joins the job of id as one of its ranks. It returns when every rank has joined and can reach every other, or
// when ctx ends.
func JoinID(ctx context.Context, id UniqueID, rank, worldSize int, opts ...Option) (Bootstrap, error) {
	b, err := join(ctx, rank, worldSize, opts, func(c *config) (meeting, error) {
		f, err := id.decode()
		if err != nil {
			return meeting{}, err
		}
		m := meeting{secret: f.secret[:], iface: c.iface, targets: f.targets(), maker: f.maker}
		if f.flags&flagRankZero != 0 {
			m.address = &rootAddress{host: f.addr.Addr().String(), port: f.addr.Port()}
			if a, err := parseAddress(c.commID); err == nil && bytes.Equal(secretFor(a, c.secret), m.secret) {
				m.address, m.targets = &a, a.targets() // each host resolves the name, as in JoinAddress
			}
			m.weak = len(c.secret) == 0
			m.attempt, err = currentAttempt(processEnvironment)
			return m, err
		}
		m.gone = goneFrom(f.addr.Addr())
		if process.used.has(&f, rank) {
			return m, fmt.Errorf("%w: this process has joined a job by this UniqueID before, as rank %d: make an id for each "+
				"communicator", ErrInvalid, rank)
		}
		if r := liveRoot(id); r != nil {
			r.step(func(a *assembly) { a.pin(rank, worldSize) })
		}
		return m, err
	})
	if f, decodeErr := id.decode(); err == nil && decodeErr == nil {
		process.used.add(&f, rank)
	}
	if r := liveRoot(id); err != nil && r != nil && !r.joined() {
		r.fail(rank, verdictGaveUp, fmt.Sprintf("rank %d, in the process that made the id, gave up: %v", rank, err))
	}
	return b, err
}

// JoinAddress is JoinID for a job that meets at address: "ip:port", "host:port", "interface:ip:port", or "unix:@name"
// on one host. Rank 0 listens there. All ranks give the same address (the interface may differ) and the same
// GOCCL_SECRET.
func JoinAddress(ctx context.Context, address string, rank, worldSize int, opts ...Option) (Bootstrap, error) {
	return join(ctx, rank, worldSize, opts, func(c *config) (meeting, error) {
		a, err := parseAddress(address)
		if err != nil {
			return meeting{}, err
		}
		m := meeting{secret: secretFor(a, c.secret), iface: c.iface, targets: a.targets(), address: &a}
		if a.iface != "" {
			m.iface = "=" + a.iface
		}
		m.weak = len(c.secret) == 0 && a.unix == ""
		m.attempt, err = currentAttempt(processEnvironment)
		return m, err
	})
}

func join(ctx context.Context, rank, worldSize int, opts []Option, where func(*config) (meeting, error)) (Bootstrap,
	error) {
	const op = "Init"
	c, err := newConfig(opts)
	switch {
	case err != nil:
	case worldSize < 1 || worldSize > MaxWorldSize:
		err = fmt.Errorf("%w: %d, want 1 to %d", ErrWorldSize, worldSize, MaxWorldSize)
	case rank < 0 || rank >= worldSize:
		err = fmt.Errorf("%w: %d of %d ranks", ErrRankRange, rank, worldSize)
	}
	if err != nil {
		return nil, fail(op, rank, -1, err)
	}
	j := joiner{rank, worldSize}
	g, r, err := j.join(ctx, c, where)
	if err != nil {
		peer := -1
		if b, ok := errors.AsType[*blame](err); ok {
			peer = b.peer
		}
		return nil, fail(op, rank, peer, err)
	}
	g.root = r
	return g, nil
}
