package bootstrap

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/goccl/goccl/internal/netif"
)

// join runs the steps of the package documentation. After an error no resource stays open.
func (t *TCP) join(ctx context.Context, c *config, where func(*config) (meeting, error)) (g *group, r *root,
	err error) {
	m, err := where(c)
	if err != nil {
		return nil, nil, err
	}
	if m.weak && t.world > 1 {
		warnWeak(c.log)
	}
	ctx, stop := stepContext(ctx, c.timeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	note := "" // a possible reason why the other ranks do not join
	if t.rank == 0 && m.address != nil {
		var ls []net.Listener
		// Not a new err: the root's clean-up below checks the result err.
		if ls, note, err = m.address.claim(ctx, c, m.iface); err != nil {
			return nil, nil, err
		}
		if note != "" {
			c.log.Warn("bootstrap: " + note)
		}
		c.world = t.world
		own := newRoot(c, ls, m.secret, m.address.String(), m.attempt)
		own.rank = t.rank
		own.lateError.close() // free the address for the next attempt
		own.serve(func() {})
		r = own
		defer func() { // the results are nil on an error
			if err == nil {
				return
			}
			// Usually the root has received the reason from our own connection, and its error is better.
			select {
			case <-own.ended:
			case <-time.After(100 * time.Millisecond):
				own.fail(0, verdictGaveUp, "rank 0 gave up: "+err.Error())
			}
			<-own.done
		}()
		m.targets = []target{outward(ls)}
	}

	if note == "" && m.loopback() {
		note = onlyHere
	}

	d := &dialer{secret: m.secret, partition: c.partition, log: c.log}
	if m.iface != "" {
		if d.nics, err = localNICs(m.iface, c.family); err != nil {
			return nil, nil, err
		}
	}

	// 1. Meet the root.
	me := greeting{role: roleJoiner, world: uint32(t.world), rank: int32(t.rank), target: -1, session: m.attempt,
		from: ownOrigin()}
	fc, them, err := d.dialKnown(ctx, m.targets, me, m.gone)
	if err != nil {
		return nil, nil, m.noRoot(t.rank, err)
	}
	rc := newRootClient(fc, int(them.rank), c.timeout, note, cancel, nil)
	defer rc.close()
	if t.world >= c.webFrom {
		g, err = t.joinTree(ctx, cancel, c, d, rc)
		return g, r, err
	}

	// 2. Send our addresses.
	ls, err := listenMesh(c, d.meshIPs(fc.c, c.family))
	if err != nil {
		return nil, nil, rc.giveUp(err)
	}
	defer ls.close()
	live := false
	defer func() {
		if live {
			releaseLiveness()
		}
	}()
	if b, err := acquireLiveness(); err == nil {
		live, ls.self.liveness = true, b.ticket
	} else {
		c.log.Debug("bootstrap: peers will notice our death by our sockets alone", "rank", t.rank, "error", err)
	}
	if err := rc.send(frameJoin, 0, ls.self.append(nil)); err != nil {
		return nil, nil, hungUp(ctx)
	}

	// 3. Receive the table.
	raw, err := rc.await(ctx, rc.table)
	if err != nil {
		return nil, nil, err
	}
	tab, err := decodeTable(raw, t.world)
	if err != nil {
		return nil, nil, rc.giveUp(err)
	}

	// 4. Connect.
	conns, err := connectMesh(ctx, c, d, t.rank, &tab, ls)
	if err != nil {
		return nil, nil, rc.giveUp(err)
	}
	e := newEndpoint(t.rank, t.world, c)
	mesh := newMesh(e, c, conns)
	mesh.watch(ctx, &tab)
	abandon := func(err error) (*group, *root, error) {
		dropConns(conns)
		mesh.release()
		return nil, nil, err
	}

	// 5. Wait for all other ranks.
	here := hereDigest(conns)
	if err := rc.send(frameReady, 0, here[:]); err != nil {
		return abandon(hungUp(ctx))
	}
	if raw, err = rc.await(ctx, rc.start); err != nil {
		return abandon(err)
	}
	if e.hosts, err = decodeHosts(raw, t.world); err != nil {
		return abandon(err)
	}
	if g, err = newGroup(e, 0, everyone(t.world)); err != nil {
		return abandon(err)
	}
	mesh.live, live = live, false
	mesh.start()
	return g, r, nil
}

// hungUp returns the reason for a broken connection to the root. The reader has the root's last message, and ends the
// joining with it.
func hungUp(ctx context.Context) error {
	<-ctx.Done()
	return contextError(ctx)
}

// meshIPs returns the addresses where peers on other hosts may reach us: first the one from which this rank has reached
// the root, which may be on this host, and then one of each other interface. There are none if the root was met on a
// unix socket.
func (d *dialer) meshIPs(c net.Conn, family int) []netip.Addr {
	a, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return nil
	}
	d.local = a.AddrPort().Addr().Unmap()
	ips, nics := []netip.Addr{d.local}, d.nics
	if len(nics) == 0 && !d.local.IsLoopback() {
		nics, _ = netif.NICs("", family) // what was met without a choice is enough
	}
	for _, n := range nics {
		if !slices.Contains(n.Addrs, d.local) && !n.Loopback && !d.local.IsLoopback() {
			ips = append(ips, n.Addr)
		}
	}
	return ips
}
