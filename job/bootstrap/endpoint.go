package bootstrap

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// endpoint is one rank's end of all its connections, shared by the groups made from it.
//
// Locking: mu is taken before the inbox's lock, never after it; links are never called under mu.
type endpoint struct {
	rank, size int
	timeout    time.Duration
	hosts      []int
	log        *slog.Logger
	box        *inbox
	links      []link // nil at rank

	verdicts []sync.Once // by peer: the first loss is handled, later ones wait for its result

	mu        sync.Mutex
	groups    map[uint64]*group
	deaths    []death       // in the order of detection
	accused   map[int][]int // by accuser: the peers that it has given up
	ended     error
	relayFrom int // groups of as many ranks gather over relays
	// pin, set by the transport, keeps connections to peers (by 1), or lets go of them (by -1).
	pin func(peers []int, by int)
	// spread, set by a transport that is not connected with every rank, tells all of them.
	spread func(ctx context.Context, n notice)
	// accuse, set by the transport, tells all other peers that this rank is about to give up peer.
	accuse func(peer int)
	// outward is an address of this host over which the transport is connected with another one.
	outward atomic.Pointer[netip.Addr]
	// stop, set by the transport, says goodbye to all peers and returns when no goroutine and no descriptor is left.
	stop func()
}

type death struct {
	peer  int
	cause error
}

// link carries frames to one peer. send returns when data may be reused. It does not return an error of the peer; the
// endpoint detects that.
type link interface {
	send(ctx context.Context, kind frameKind, space, tag uint64, data []byte) error
}

func newEndpoint(rank, size int, c *config) *endpoint {
	return &endpoint{
		rank: rank, size: size, timeout: c.timeout, log: c.log, box: newInbox(size), links: make([]link, size),
		groups: map[uint64]*group{}, accused: map[int][]int{}, verdicts: make([]sync.Once, size), accuse: func(int) {},
		pin: func([]int, int) {}, relayFrom: relayFrom,
	}
}

// send passes data to the peer's link, or to our own inbox.
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
	err = e.links[peer].send(ctx, kind, space, tag, data)
	var unsent errUnsent
	if err == nil || ctx.Err() != nil || errors.As(err, &unsent) {
		return err
	}
	// The link broke. The endpoint decides whether that is a goodbye or a death.
	e.lost(peer, err)
	e.box.mu.Lock()
	defer e.box.mu.Unlock()
	return e.box.peers[peer].gone
}

// lost records the death of peer, once, and reports it to every group of the peer. All callers return after that is
// done.
//
// A rank that detects a death often exits, and then its own death is detected. So that all ranks blame the first death:
//
//  0. A peer that has left every group that it shares with this rank is not reported as dead.
//  1. Before any caller here can act on the loss, tell the other peers about it (accuse). On each connection that
//     message precedes our own end.
//  2. If the peer had accused another rank, record the death of the accused rank first, if that rank is dead. That
//     shows within accusationDelay.
func (e *endpoint) lost(peer int, cause error) { e.judge(peer, cause, true) }

// judge is lost, but for a loss that others have detected it does not tell them.
func (e *endpoint) judge(peer int, cause error, own bool) {
	e.verdicts[peer].Do(func() {
		if e.saidGoodbye(peer) {
			e.departed(peer)
			return
		}
		if e.wasHere(peer) {
			if own {
				e.accuse(peer)
			}
			e.hearAccused(peer)
		}
		e.bury(peer, cause)
	})
}

// accusationDelay is how long the report of a peer's death waits for the deaths of the ranks that it has accused: a few
// polls of the liveness pages.
const accusationDelay = 4 * livenessInterval

// wasHere reports whether neither peer nor this rank has died or left.
func (e *endpoint) wasHere(peer int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.box.mu.Lock()
	defer e.box.mu.Unlock()
	return e.ended == nil && e.box.peers[peer].gone == nil
}

// accusedBy records that accuser has given up peer.
func (e *endpoint) accusedBy(accuser, peer int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.accused[accuser]) < e.size {
		e.accused[accuser] = append(e.accused[accuser], peer)
	}
}

// hearAccused waits for the deaths of the ranks that peer has accused.
func (e *endpoint) hearAccused(peer int) {
	for end := time.Now().Add(accusationDelay); time.Now().Before(end); time.Sleep(accusationDelay / 50) {
		e.mu.Lock()
		open := false
		for _, a := range e.accused[peer] {
			open = open || a != e.rank && !e.isDead(a)
		}
		open = open && e.ended == nil
		e.mu.Unlock()
		if !open {
			return
		}
	}
}

// isDead reports whether peer's death is recorded. The caller holds mu.
func (e *endpoint) isDead(peer int) bool {
	return slices.ContainsFunc(e.deaths, func(d death) bool { return d.peer == peer })
}

func (e *endpoint) bury(peer int, cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended != nil {
		cause = e.ended
	} else {
		cause = peerDead(cause)
	}
	if !e.box.lose(peer, cause) || e.ended != nil {
		return
	}
	e.log.Warn("bootstrap: peer is dead", "rank", e.rank, "peer", peer, "cause", cause)
	e.deaths = append(e.deaths, death{peer, cause})
	for _, g := range e.groups {
		if !e.box.hasLeft(g.space, peer) {
			g.report(peer, cause)
		}
	}
}

// departed records that peer closed its whole endpoint.
func (e *endpoint) departed(peer int) {
	e.box.lose(peer, errPeerClosed)
}

var errPeerClosed = closedError("the peer has closed its bootstrap")

type closedError string

func (e closedError) Error() string        { return string(e) }
func (e closedError) Is(target error) bool { return target == ErrClosed }

// add registers a group.
func (e *endpoint) add(g *group) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended != nil {
		return e.ended
	}
	if e.groups[g.space] != nil {
		return errors.New("space is in use")
	}
	e.groups[g.space] = g
	e.pin(neighbours(g.rank, g.members), 1)
	for _, d := range e.deaths {
		g.report(d.peer, d.cause)
	}
	return nil
}

// drop ends a group. Dropping the last group ends the endpoint.
func (e *endpoint) drop(g *group) {
	e.mu.Lock()
	delete(e.groups, g.space)
	e.pin(neighbours(g.rank, g.members), -1)
	last := len(e.groups) == 0 && e.ended == nil
	if last {
		e.ended = ErrClosed
	}
	e.mu.Unlock()
	e.box.close(g.space, ErrClosed)
	if last {
		e.stop()
		for peer := range e.size {
			e.box.lose(peer, ErrClosed)
		}
	}
}

// abandon ends the endpoint at once, as if its process had died.
func (e *endpoint) abandon(err error) {
	e.mu.Lock()
	if e.ended == nil {
		e.ended = err
	}
	e.mu.Unlock()
	for peer := range e.size {
		e.box.lose(peer, err)
	}
}

// deliver takes a frame of peer and the ownership of data. See inbox.put for the channel.
func (e *endpoint) deliver(peer int, kind frameKind, space, tag uint64, data []byte) <-chan struct{} {
	if kind == frameLeave {
		e.departs(peer, space, data)
		return nil
	}
	return e.box.put(key{peer, kind, space, tag}, data)
}
