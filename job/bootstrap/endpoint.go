package bootstrap

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// endpoint is one rank's end of all its connections, shared by the groups made from it. It carries out what the
// membership decides.
//
// Locking: mu guards the membership, the groups and the transport's tables. It is taken before the inbox's lock, never
// after it, and never held during I/O.
type endpoint struct {
	rank, size int
	timeout    time.Duration
	hosts      []int // Set before the first group is made.
	log        *slog.Logger
	box        *inbox
	t          transport // Set before the first group is made.
	relayFrom  int       // Groups of this size or more gather over relays.

	// outward is an address of this host over which the transport is connected with another host, or nil.
	outward atomic.Pointer[netip.Addr]

	mu      sync.Mutex
	m       *membership
	groups  map[uint64]*group // By space; m.groups has the same keys.
	wake    int64             // The latest time for which a tick is scheduled.
	changed chan struct{}     // Closed and replaced whenever something that until waits for may have changed.
}

// transport carries frames and reports between the ranks of a job.
type transport interface {
	// send returns when data may be reused. It does not return an error of the peer; the endpoint detects that.
	send(ctx context.Context, peer int, kind frameKind, space, tag uint64, data []byte) error
	// report queues a report for the connected peers that want it, but not for the peer except. The endpoint's lock is
	// held, as for pin, cut and forget.
	report(r report, except int)
	// flush waits until queued reports are sent, or ctx ends.
	flush(ctx context.Context)
	// pin keeps connections to peers (by 1), or allows their end again (by -1).
	pin(peers []int, by int)
	// cut ends the connections with a peer when the data that has arrived on them is read.
	cut(peer int, cause error)
	// forget ends attempts to reach a peer that has gone.
	forget(peer int)
	// stop says goodbye to all peers. It returns when no goroutine and no descriptor is left.
	stop()
}

func newEndpoint(rank, size int, c *config, complete bool) *endpoint {
	box := newInbox(size)
	return &endpoint{
		rank: rank, size: size, timeout: c.timeout, log: c.log, box: box, groups: map[uint64]*group{},
		m: newMembership(rank, size, complete, box.hasLeft), relayFrom: relayFrom, changed: make(chan struct{}),
	}
}

var clockStart = time.Now()

// now returns the time in nanoseconds of this process's monotonic clock.
func now() int64 { return int64(time.Since(clockStart)) }

// step passes an event to the membership and carries out the effects.
func (e *endpoint) step(event func(m *membership, now int64)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stepLocked(event)
}

func (e *endpoint) stepLocked(event func(m *membership, now int64)) {
	event(e.m, now())
	for _, x := range e.m.take() {
		e.apply(x)
	}
	if at := e.m.next(); at > e.wake {
		e.wake = at
		time.AfterFunc(time.Duration(at-now())+time.Millisecond, func() { e.step((*membership).tick) })
	}
	e.turn()
}

// apply carries out an effect. The caller holds mu.
func (e *endpoint) apply(x effect) {
	switch x.kind {
	case effectSend:
		e.t.report(x.report, x.peer)
	case effectDead:
		e.log.Warn("bootstrap: peer is dead", "rank", e.rank, "peer", x.peer, "cause", x.err)
		e.box.lose(x.peer, x.err)
		e.t.forget(x.peer)
		for _, g := range e.groups {
			if !e.box.hasLeft(g.space, x.peer) {
				g.report(x.peer, x.err)
			}
		}
	case effectDeparted:
		e.box.lose(x.peer, x.err)
		e.t.forget(x.peer)
	case effectLeft:
		e.left(x.peer, x.report.space, x.report.reason)
	case effectWaiting:
		e.box.put(key{x.peer, frameCollective, x.report.space, waitingTag},
			binary.LittleEndian.AppendUint64(nil, x.report.tag))
	case effectCut:
		e.t.cut(x.peer, x.err)
	}
}

// until waits until is, called under mu, returns true.
func (e *endpoint) until(ctx context.Context, is func() bool) error {
	for {
		e.mu.Lock()
		done, changed := is(), e.changed
		e.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return contextError(ctx)
		}
	}
}

// turn wakes until. The caller holds mu.
func (e *endpoint) turn() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// send passes data to the peer, or to our own inbox.
func (e *endpoint) send(ctx context.Context, kind frameKind, peer int, space, tag uint64, data []byte) error {
	e.box.mu.Lock()
	err := e.box.unreachable(key{peer: peer, space: space})
	e.box.mu.Unlock()
	if err != nil {
		return err
	}
	if peer == e.rank {
		e.box.put(key{peer, kind, space, tag}, append([]byte{}, data...))
		return nil
	}
	err = e.t.send(ctx, peer, kind, space, tag, data)
	if err == nil || ctx.Err() != nil || errors.As(err, new(errUnsent)) {
		return err
	}
	// The connection broke. The membership decides whether that is a goodbye or a death.
	e.lost(peer, err)
	return e.box.gone(peer)
}

// errUnsent means that a message could not be sent, which says nothing about the peer.
type errUnsent struct{ error }

func (e errUnsent) Unwrap() error { return e.error }

// spread sends a report of this rank, and returns when it is sent or ctx has ended.
func (e *endpoint) spread(ctx context.Context, r report) {
	e.step(func(m *membership, _ int64) { m.originate(r) })
	e.t.flush(ctx)
}

// lost records that this rank cannot reach peer. It returns when the membership has decided what that means.
func (e *endpoint) lost(peer int, cause error) {
	e.step(func(m *membership, now int64) { m.lose(now, peer, cause, true) })
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	e.t.flush(ctx)
	cancel()
	e.step(func(m *membership, now int64) { m.sent(now, peer) })
	_ = e.until(context.Background(), func() bool { return e.m.peers[peer].phase == memberGone })
}

var errPeerClosed = closedError("the peer has closed its bootstrap")

type closedError string

func (e closedError) Error() string        { return string(e) }
func (e closedError) Is(target error) bool { return target == ErrClosed }

// add registers a group.
func (e *endpoint) add(g *group) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.m.ended != nil {
		return e.m.ended
	}
	if e.groups[g.space] != nil {
		return errors.New("space is in use")
	}
	e.groups[g.space] = g
	e.m.groups[g.space] = g.index
	e.t.pin(successors(g.rank, g.members), 1)
	for _, d := range e.m.deaths {
		g.report(d.peer, d.cause)
	}
	return nil
}

// drop ends a group. Dropping the last group ends the endpoint.
func (e *endpoint) drop(g *group) {
	e.mu.Lock()
	delete(e.groups, g.space)
	delete(e.m.groups, g.space)
	e.t.pin(successors(g.rank, g.members), -1)
	last := len(e.groups) == 0 && e.m.ended == nil
	if last {
		e.stepLocked(func(m *membership, _ int64) { m.end(ErrClosed, false) })
	}
	e.mu.Unlock()
	e.box.close(g.space, ErrClosed)
	if last {
		e.t.stop()
		e.abandon(ErrClosed)
	}
}

// abandon ends the endpoint at once, as if its process had died.
func (e *endpoint) abandon(why error) {
	e.step(func(m *membership, _ int64) { m.end(why, true) })
}
