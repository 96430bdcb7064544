package bootstrap

import (
	"context"
	"errors"
	"log/slog"
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

	mu     sync.Mutex
	groups map[uint64]*group
	dead   map[int]error
	ended  error
	// stop, set by the transport, says goodbye to everyone and returns when no goroutine and no descriptor is left.
	stop func()
}

// link carries frames to one peer. send returns when data may be reused; an error of the peer is found by the endpoint, not returned.
type link interface {
	send(ctx context.Context, kind frameKind, space, tag uint64, data []byte) error
}

func newEndpoint(rank, size int, c *config) *endpoint {
	return &endpoint{
		rank: rank, size: size, timeout: c.timeout, log: c.log, box: newInbox(size), links: make([]link, size),
		groups: map[uint64]*group{}, dead: map[int]error{},
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

// lost records that peer died, once, and tells every group it is in.
func (e *endpoint) lost(peer int, cause error) {
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
	e.dead[peer] = cause
	for _, g := range e.groups {
		g.report(peer, cause)
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
	for peer, cause := range e.dead {
		g.report(peer, cause)
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
