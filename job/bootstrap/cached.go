package bootstrap

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/goccl/goccl/internal/sockets"
)

// The connections of a sparse overlay with ranks that are not neighbours are cached:
//
//   - The first message to a peer makes one. A connection that a group's collectives use is pinned as long as the group
//     exists. Beyond mostCached others, the one that has carried nothing for the longest time is given up: its sender
//     says so (frameIdle) and the receiver closes it. A receiver of too many asks for that, with the same frame.
//   - A receiver reads the connections of one peer one after the other, so messages keep their order.

// mostCached is how many connections that are not pinned a rank keeps in each direction.
const mostCached = 32

// acceptPause lets another connection close before one more is accepted.
const acceptPause = 250 * time.Millisecond

// outgoing is a connection that this rank dials.
type outgoing struct {
	peer   int
	ready  chan struct{} // Closed when l or err is set.
	cancel context.CancelFunc
	l      *link
	err    error
	// Guarded by the endpoint's mu:
	users  int  // Messages that are being sent.
	wanted bool // The peer has asked to give it up.
}

// incoming is a place for a connection that a peer has dialed, from the time when it was admitted.
type incoming struct {
	l    *link         // nil until the peer has been told that it is admitted.
	done chan struct{} // Closed when the connection has ended.
}

// pin implements transport.
func (o *overlay) pin(peers []int, by int) {
	for _, p := range peers {
		if o.neighbours[p] != nil {
			continue
		}
		if o.pins[p] += by; o.pins[p] == 0 {
			delete(o.pins, p)
		}
	}
}

// take returns the connection to peer, and makes it if there is none. The caller releases it.
func (o *overlay) take(ctx context.Context, peer int) (*outgoing, error) {
	var c *outgoing
	err := o.e.until(ctx, func() bool {
		if c = o.out[peer]; c == nil && !o.closed && o.makePlace(peer) {
			c = &outgoing{peer: peer, ready: make(chan struct{})}
			var dialing context.Context
			dialing, c.cancel = stepContext(o.ctx, o.c.timeout)
			o.out[peer] = c
			o.tasks.Go(func() { o.dial(dialing, c) })
		}
		if c != nil {
			c.users++
		}
		return c != nil || o.closed
	})
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return nil, ErrClosed
	}
	select {
	case <-c.ready:
		err = c.err
	case <-ctx.Done():
		err = contextError(ctx)
	}
	if err != nil {
		o.release(c)
		return nil, err
	}
	return c, nil
}

// makePlace returns true if one more connection may be made. The caller holds mu.
func (o *overlay) makePlace(peer int) bool {
	if o.pins[peer] > 0 {
		return true
	}
	var unused []*outgoing
	cached := 0
	for p, c := range o.out {
		if o.pins[p] > 0 {
			continue
		}
		if cached++; c.users == 0 && c.l != nil {
			unused = append(unused, c)
		}
	}
	if cached < o.c.cached {
		return true
	}
	if len(unused) == 0 {
		return false
	}
	o.giveUp(slices.MinFunc(unused, func(a, b *outgoing) int { return int(a.l.used.Load() - b.l.used.Load()) }))
	return true
}

// giveUp gives up a connection that nothing is sent over. Its data stays in order: the peer closes it when it has read
// all. The caller holds mu.
func (o *overlay) giveUp(c *outgoing) {
	delete(o.out, c.peer)
	c.l.idle.Store(true)
	o.e.turn()
	if !o.silent {
		o.tasks.Go(func() { _ = c.l.fc.write(o.ctx, frameIdle, 0, 0, nil) })
	}
}

// releaseWanted answers a peer that asks this rank to give up a connection.
func (o *overlay) releaseWanted(l *link) {
	o.e.mu.Lock()
	defer o.e.mu.Unlock()
	c := o.out[l.peer]
	switch {
	case c == nil || c.l != l || o.silent:
	case o.pins[l.peer] > 0:
		o.tasks.Go(func() { _ = l.fc.write(o.ctx, framePinned, 0, 0, nil) })
	case c.users > 0:
		c.wanted = true
	default:
		o.giveUp(c)
	}
}

func (o *overlay) release(c *outgoing) {
	o.e.mu.Lock()
	defer o.e.mu.Unlock()
	if c.users--; c.users == 0 && o.out[c.peer] == c && c.l != nil {
		if c.wanted && o.pins[c.peer] == 0 {
			o.giveUp(c)
		}
		o.e.turn()
	}
}

// dial makes a connection. Its first frame shows the peer that it was made.
func (o *overlay) dial(ctx context.Context, c *outgoing) {
	defer c.cancel()
	var l *link
	fc, err := o.dialPeer(ctx, c.peer, purposeData)
	if err == nil {
		l = o.newLink(c.peer, fc)
		o.e.mu.Lock()
		l.pinned = o.pins[c.peer] > 0
		o.e.mu.Unlock()
		first := frameHeartbeat
		if l.pinned {
			first = framePinned
			l.watch(ctx)
		}
		err = fc.write(ctx, first, 0, 0, nil)
	}
	o.e.mu.Lock()
	defer o.e.mu.Unlock()
	if err == nil && o.ended {
		err = ErrClosed
	}
	if err != nil {
		if fc != nil {
			fc.close()
			l.unwatch()
		}
		delete(o.out, c.peer)
		if gone := o.e.box.gone(c.peer); gone != nil { // which has ended the attempt
			err = gone
		}
		l, err = nil, fmt.Errorf("no way to rank %d: %w", c.peer, err)
	} else {
		o.add(l)
		o.readers.Go(func() {
			l.serve()
			o.outgoingEnded(c)
		})
	}
	c.l, c.err = l, err
	close(c.ready)
	o.e.turn()
}

func (o *overlay) outgoingEnded(c *outgoing) {
	o.e.mu.Lock()
	defer o.e.mu.Unlock()
	if o.out[c.peer] == c {
		delete(o.out, c.peer)
	}
	o.e.turn()
}

// forget implements transport.
func (o *overlay) forget(peer int) {
	if c := o.out[peer]; c != nil && c.l == nil {
		c.cancel()
	}
}

// reserve makes a place for a connection that a peer dials.
func (o *overlay) reserve(peer int) verdict {
	o.e.mu.Lock()
	defer o.e.mu.Unlock()
	n := o.neighbours[peer]
	switch {
	case o.closed:
		return verdictGaveUp
	case n != nil && (n.reserved || dials(o.e.rank, peer, o.e.size)):
		return verdictDuplicate
	case n != nil:
		n.reserved = true
	default:
		o.in[peer] = append(o.in[peer], &incoming{done: make(chan struct{})})
		o.e.m.inboundChanged(now(), peer, 1)
	}
	return verdictOK
}

// place returns the oldest place of peer without a connection, and its position. The caller holds mu.
func (o *overlay) place(peer int) (int, *incoming) {
	i := slices.IndexFunc(o.in[peer], func(in *incoming) bool { return in.l == nil })
	return i, o.in[peer][i]
}

// unreserve gives up a place whose connection has not come.
func (o *overlay) unreserve(peer int) {
	o.e.mu.Lock()
	if n := o.neighbours[peer]; n != nil {
		n.reserved = false
		o.e.mu.Unlock()
		return
	}
	_, in := o.place(peer)
	o.e.mu.Unlock()
	o.incomingEnded(peer, in)
}

// enter takes the connection of a peer that has a place.
func (o *overlay) enter(fc *frameConn, peer int) {
	if o.neighbours[peer] != nil {
		o.addNeighbour(peer, fc)
		return
	}
	sockets.Tune(fc.c, o.c.partition)
	l := o.newLink(peer, fc)
	l.inbound = true
	l.held.Store(true)
	o.e.mu.Lock()
	i, in := o.place(peer)
	in.l = l
	var before chan struct{}
	if i > 0 {
		before = o.in[peer][i-1].done
	}
	served := !o.ended
	if served {
		o.add(l)
		o.readers.Go(func() {
			if before != nil {
				select {
				case <-before:
				case <-o.stopping:
				}
			}
			l.seen.Store(now())
			l.held.Store(false)
			l.serve()
			o.incomingEnded(peer, in)
		})
	}
	o.thin()
	o.e.turn()
	o.e.mu.Unlock()
	if !served {
		fc.close()
		o.incomingEnded(peer, in)
	}
}

func (o *overlay) incomingEnded(peer int, in *incoming) {
	o.e.step(func(m *membership, now int64) {
		o.in[peer] = slices.DeleteFunc(o.in[peer], func(other *incoming) bool { return other == in })
		if len(o.in[peer]) == 0 {
			delete(o.in, peer)
		}
		m.inboundChanged(now, peer, -1)
	})
	close(in.done)
}

// cachedIn lists the connections that peers have dialed and that are not pinned. The caller holds mu.
func (o *overlay) cachedIn() (list []*link) {
	for l := range o.links {
		if l.inbound && !l.pinned && !l.idle.Load() {
			list = append(list, l)
		}
	}
	return list
}

// thin asks the sender of the connection that has carried nothing for the longest time to give it up, if there are too
// many. The caller holds mu.
func (o *overlay) thin() {
	list := slices.DeleteFunc(o.cachedIn(), func(l *link) bool { return l.asked })
	if len(list) <= o.c.cached || o.silent {
		return
	}
	l := slices.MinFunc(list, func(a, b *link) int { return int(a.used.Load() - b.used.Load()) })
	l.asked = true
	o.tasks.Go(func() { _ = l.fc.write(o.ctx, frameIdle, 0, 0, nil) })
}

// room waits for a moment while too many peers are connected.
func (o *overlay) room() {
	ctx, cancel := context.WithTimeout(o.ctx, acceptPause)
	defer cancel()
	_ = o.e.until(ctx, func() bool { return o.closed || len(o.cachedIn()) < 2*o.c.cached })
}
