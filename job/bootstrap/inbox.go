package bootstrap

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
)

// maxQueued is the number of bytes of one peer that may be queued here before its connection is no longer read.
const maxQueued = 64 << 20

// key is what messages are matched by. Peers have the endpoint's numbering, not the group's.
type key struct {
	peer  int
	kind  frameKind
	space uint64
	tag   uint64
}

// inbox holds the messages that have arrived and their waiters. There is one per endpoint.
//
// Invariant under mu: a queue has messages or waiters, never both, and is in the map only if it has either.
type inbox struct {
	limit  int // bytes queued from one peer before its reader is blocked
	mu     sync.Mutex
	queues map[key]*queue
	peers  []peerState
	left   map[spacePeer]error // peers that closed one space
	ended  map[uint64]error    // spaces that a peer has given up, until they are closed
	closed map[uint64]error    // spaces closed here
	order  []uint64            // closed, oldest first
}

type peerState struct {
	gone    error // why no more messages arrive; nil while they may
	queued  int   // bytes in queues
	waiters int
	room    chan struct{} // non-nil while a reader is blocked; closed when there is room
}

type spacePeer struct {
	space uint64
	peer  int
}

type queue struct {
	messages [][]byte
	waiters  []*waiter
}

// waiter gets exactly one delivery, or none if it was removed first. Its channel has room for it, so delivering under
// mu never blocks.
type waiter struct {
	ch    chan delivery
	index int
}

type delivery struct {
	index int
	data  []byte
	err   error
}

func newInbox(size int) *inbox {
	return &inbox{
		limit: maxQueued, queues: map[key]*queue{}, peers: make([]peerState, size), left: map[spacePeer]error{},
		ended: map[uint64]error{}, closed: map[uint64]error{},
	}
}

// put delivers data and takes its ownership. If the returned channel is not nil, the reader of that peer must wait
// until it is closed: too much is queued, and no receiver waits for a message of this peer.
func (b *inbox) put(k key, data []byte) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed[k.space] != nil {
		return nil
	}
	q := b.queues[k]
	if q != nil && len(q.waiters) > 0 {
		w := q.waiters[0]
		q.waiters = q.waiters[1:]
		b.peers[k.peer].waiters--
		b.tidy(k, q)
		w.ch <- delivery{index: w.index, data: data}
		return nil
	}
	q = b.queue(k)
	q.messages = append(q.messages, data)
	p := &b.peers[k.peer]
	p.queued += len(data)
	if p.queued <= b.limit || p.waiters > 0 || p.gone != nil {
		return nil
	}
	if p.room == nil {
		p.room = make(chan struct{})
	}
	return p.room
}

// collect waits for one message under each key and passes each to got with the key's index, in order of arrival. It
// fails as soon as one of the keys cannot be satisfied any more, and returns its index; -1 means that the context
// ended.
func (b *inbox) collect(ctx context.Context, keys []key, got func(i int, data []byte)) (int, error) {
	ch := make(chan delivery, len(keys))
	waiters := make([]waiter, len(keys))
	b.mu.Lock()
	missing := 0
	for i, k := range keys {
		if data, ok := b.pop(k); ok {
			got(i, data)
			continue
		}
		if err := b.unreachable(k); err != nil {
			b.remove(keys[:i], waiters)
			b.mu.Unlock()
			return i, err
		}
		waiters[i] = waiter{ch: ch, index: i}
		q := b.queue(k)
		q.waiters = append(q.waiters, &waiters[i])
		p := &b.peers[k.peer]
		p.waiters++
		p.release()
		missing++
	}
	b.mu.Unlock()

	for missing > 0 {
		var d delivery
		select {
		case d = <-ch:
		case <-ctx.Done():
			b.mu.Lock()
			b.remove(keys, waiters)
			b.mu.Unlock()
			// A message that was delivered before the removal is not lost.
			select {
			case d = <-ch:
			default:
				return -1, contextError(ctx)
			}
		}
		if d.err != nil {
			b.mu.Lock()
			b.remove(keys, waiters)
			b.mu.Unlock()
			return d.index, d.err
		}
		got(d.index, d.data)
		missing--
	}
	return -1, nil
}

func (b *inbox) queue(k key) *queue {
	if b.queues[k] == nil {
		b.queues[k] = &queue{}
	}
	return b.queues[k]
}

// pop takes the oldest message under k, if there is one.
func (b *inbox) pop(k key) ([]byte, bool) {
	q := b.queues[k]
	if q == nil || len(q.messages) == 0 {
		return nil, false
	}
	data := q.messages[0]
	q.messages[0] = nil
	q.messages = q.messages[1:]
	b.tidy(k, q)
	p := &b.peers[k.peer]
	p.queued -= len(data)
	if p.queued <= b.limit/2 {
		p.release()
	}
	return data, true
}

func (b *inbox) unreachable(k key) error {
	return cmp.Or(b.closed[k.space], b.ended[k.space], b.left[spacePeer{k.space, k.peer}], b.peers[k.peer].gone)
}

// remove takes the waiters out of their queues. Waiters that have got a delivery are no longer there.
func (b *inbox) remove(keys []key, waiters []waiter) {
	for i, k := range keys {
		q := b.queues[k]
		if q == nil {
			continue
		}
		if j := slices.Index(q.waiters, &waiters[i]); j >= 0 {
			q.waiters = slices.Delete(q.waiters, j, j+1)
			b.peers[k.peer].waiters--
			b.tidy(k, q)
		}
	}
}

func (b *inbox) tidy(k key, q *queue) {
	if len(q.messages) == 0 && len(q.waiters) == 0 {
		delete(b.queues, k)
	}
}

// gone returns why no more messages of peer arrive, or nil while they may.
func (b *inbox) gone(peer int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peers[peer].gone
}

// lose marks a peer as gone for good and ends every wait for it. Only the first reason counts.
func (b *inbox) lose(peer int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := &b.peers[peer]; p.gone == nil {
		p.gone = err
		p.release()
		b.end(func(k key) bool { return k.peer == peer }, err)
	}
}

// leave marks a peer as gone from one space.
func (b *inbox) leave(space uint64, peer int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed[space] != nil {
		return
	}
	b.left[spacePeer{space, peer}] = err
	b.end(func(k key) bool { return k.space == space && k.peer == peer }, err)
}

// withdraw is leave of a peer without which the others cannot go on: it ends every wait in the space.
func (b *inbox) withdraw(space uint64, peer int, err error) {
	b.leave(space, peer, err)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed[space] == nil && b.ended[space] == nil {
		b.ended[space] = err
		b.end(func(k key) bool { return k.space == space }, err)
	}
}

// maxClosedSpaces bounds the memory for closed spaces. Forgetting an old one is harmless unless a message for it is
// still under way.
const maxClosedSpaces = 4096

// close ends every wait in a space and drops its queued messages.
func (b *inbox) close(space uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed[space] != nil {
		return
	}
	b.closed[space] = err
	delete(b.ended, space)
	b.order = append(b.order, space)
	if len(b.order) > maxClosedSpaces {
		delete(b.closed, b.order[0])
		b.order = b.order[1:]
	}
	b.end(func(k key) bool { return k.space == space }, err)
	for k, q := range b.queues {
		if k.space != space {
			continue
		}
		p := &b.peers[k.peer]
		for _, m := range q.messages {
			p.queued -= len(m)
		}
		if p.queued <= b.limit/2 {
			p.release()
		}
		delete(b.queues, k)
	}
	maps.DeleteFunc(b.left, func(sp spacePeer, _ error) bool { return sp.space == space })
}

func (b *inbox) end(match func(key) bool, err error) {
	for k, q := range b.queues {
		if !match(k) || len(q.waiters) == 0 {
			continue
		}
		for _, w := range q.waiters {
			w.ch <- delivery{index: w.index, err: err}
		}
		b.peers[k.peer].waiters -= len(q.waiters)
		q.waiters = nil
		b.tidy(k, q)
	}
}

func (p *peerState) release() {
	if p.room != nil {
		close(p.room)
		p.room = nil
	}
}
