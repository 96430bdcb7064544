package bootstrap

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// endpoint is one rank's end of all its connections, shared by the family of groups made from it.
//
// Locking: mu is taken before the inbox's lock, never after it; links are never called under mu.
type endpoint struct {
	rank, size int
	timeout    time.Duration
	hosts      []int
	log        *slog.Logger
	box        *inbox
	links      []link // nil at rank

	verdicts []sync.Once // by peer: the first loss is judged, later ones wait for the verdict

	mu      sync.Mutex
	groups  map[uint64]*group
	deaths  []death       // in the order of the verdicts
	accused map[int][]int // by accuser: whom it has given up
	ended   error
	// accuse, set by the transport, tells all other peers that this one is about to be given up.
	accuse func(peer int)
	// stop, set by the transport, says goodbye to everyone and returns when no goroutine and no descriptor is left.
	stop func()
}

type death struct {
	peer  int
	cause error
}

// link carries frames to one peer. send returns when data may be reused; an error of the peer is found by the endpoint, not returned.
type link interface {
	send(ctx context.Context, kind frameKind, space, tag uint64, data []byte) error
}

func newEndpoint(rank, size int, c *config) *endpoint {
	return &endpoint{
		rank: rank, size: size, timeout: c.timeout, log: c.log, box: newInbox(size), links: make([]link, size),
		groups: map[uint64]*group{}, accused: map[int][]int{}, verdicts: make([]sync.Once, size), accuse: func(int) {},
	}
}

// send routes to the peer's link, or to our own inbox.
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
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The link broke under us: the verdict is the endpoint's, which knows a goodbye from a death.
	e.lost(peer, err)
	e.box.mu.Lock()
	defer e.box.mu.Unlock()
	return e.box.peers[peer].gone
}

// lost records that peer died, once, and tells every group it is in. It returns when that is done, by whichever call.
//
// Who sees a death often exits, and then it is lost in its turn. So that everybody blames the first:
//
//  0. Whoever has left all that it shares with this rank is no loss.
//  1. Before anybody here can act on the loss, the other peers are told of it (accuse): on each connection that comes before our own end.
//  2. A peer that had accused somebody is buried after the one it accused, if that one is dead indeed, which shows within accusationDelay.
func (e *endpoint) lost(peer int, cause error) {
	e.verdicts[peer].Do(func() {
		if e.saidGoodbye(peer) {
			e.departed(peer)
			return
		}
		if e.wasHere(peer) {
			e.accuse(peer)
			e.hearAccused(peer)
		}
		e.bury(peer, cause)
	})
}

// accusationDelay is how long the death of a peer is held back for the death of those that it has accused: a few looks at the beacons.
const accusationDelay = 4 * beaconInterval

// wasHere reports whether peer has neither died nor left, while we have not left either.
func (e *endpoint) wasHere(peer int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.box.mu.Lock()
	defer e.box.mu.Unlock()
	return e.ended == nil && e.box.peers[peer].gone == nil
}

// accusedBy notes that accuser has given up peer.
func (e *endpoint) accusedBy(accuser, peer int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.accused[accuser]) < e.size {
		e.accused[accuser] = append(e.accused[accuser], peer)
	}
}

// hearAccused waits for the deaths of those whom peer has accused.
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

// isDead is called under mu.
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

// add makes a group of the family.
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
	for _, d := range e.deaths {
		g.report(d.peer, d.cause)
	}
	return nil
}

// drop ends a group; the last one ends the endpoint.
func (e *endpoint) drop(g *group) {
	e.mu.Lock()
	delete(e.groups, g.space)
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

// deliver takes a frame of peer; data is ours from now on. See inbox.put for the channel.
func (e *endpoint) deliver(peer int, kind frameKind, space, tag uint64, data []byte) <-chan struct{} {
	if kind == frameLeave {
		e.box.leave(space, peer, errPeerClosed)
		return nil
	}
	return e.box.put(key{peer, kind, space, tag}, data)
}
