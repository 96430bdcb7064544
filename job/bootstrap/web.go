package bootstrap

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/goccl/goccl/internal/sockets"
)

// web is the connections of a rank of a large job. A full mesh would take a descriptor for each rank. Each connection
// of a web carries data from the rank that has dialed to the other one, and heartbeats, notices and goodbyes in both
// directions.
//
//  1. Rank r stays connected with r+1, r+2, r+4, … of the job, and in a group of that group: these connections are
//     pinned. They carry the collectives (relay.go), watch for deaths and pass notices (flood.go). With n ranks each is
//     watched by 2⌈log₂ n⌉ others, and any two are connected over as many disjoint paths.
//  2. Any other connection is made by the first message to its peer. Beyond mostGuests of them the one that has carried
//     nothing for the longest time rests: its sender says so (frameRest) and the receiver closes it. A receiver of too
//     many asks for it, with the same frame.
//  3. A receiver reads the connections of one peer one after the other, so messages keep their order.
//  4. What a full mesh learns from n-1 connections comes as notices: deaths, goodbyes, and ranks that leave a group.
//
// Locking: mu is taken before the locks of the mesh and of the inbox.
type web struct {
	m  *mesh
	e  *endpoint
	c  *config
	d  *dialer
	ls *meshListeners
	t  *table // set before the first dial

	gate *acceptor

	ctx    context.Context // ends with the web
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu       sync.Mutex
	out      map[int]*outgoing
	in       map[int][]*incoming // by peer, oldest first
	pins     map[int]int         // by peer: groups that keep a connection to it
	known    known
	held     map[int][]notice // by peer
	accusers map[int]map[int]bool
	turned   chan struct{} // closed and made anew when something above has changed
	closed   bool          // no connection is made any more
	silent   bool          // no task is started any more
}

// incoming is a place for a connection that a peer has dialed, from the time when it was admitted.
type incoming struct {
	l    *meshLink // nil until the peer has been told
	done chan struct{}
}

const (
	// webFrom is the number of ranks from which a job has a web, and joins over a tree.
	webFrom = 128
	// mostGuests is how many connections that are not pinned a rank keeps in each direction.
	mostGuests = 32
	// In a web, groups gather over relays from fewer ranks on.
	webRelayFrom = 16
)

func newWeb(c *config, d *dialer, e *endpoint, ls *meshListeners) *web {
	w := &web{m: newMesh(e, c, nil), e: e, c: c, d: d, ls: ls, out: map[int]*outgoing{}, in: map[int][]*incoming{},
		pins: map[int]int{}, held: map[int][]notice{}, accusers: map[int]map[int]bool{}, turned: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.m.web = w
	for p := range e.links {
		if p != e.rank {
			e.links[p] = route{w, p}
		}
	}
	e.stop, e.accuse, e.pin, e.spread, e.relayFrom = w.stop, w.accuse, w.pin, w.spread, webRelayFrom
	return w
}

// neighbours lists the members of a group that a rank stays connected with.
func neighbours(rank int, members []int) (list []int) {
	for d := 1; d < len(members); d *= 2 {
		list = append(list, members[(rank+d)%len(members)])
	}
	return list
}

// pin keeps connections to peers, or lets go of them.
func (w *web) pin(peers []int, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range peers {
		if w.pins[p] += by; w.pins[p] == 0 {
			delete(w.pins, p)
		}
	}
}

// admit reserves a place for a peer's connection.
func (w *web) admit(them greeting) verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return verdictGaveUp
	}
	w.in[int(them.rank)] = append(w.in[int(them.rank)], &incoming{done: make(chan struct{})})
	return verdictOK
}

// abandon gives up a place whose connection has not come.
func (w *web) abandonPlace(them greeting) {
	p := int(them.rank)
	w.mu.Lock()
	i := slices.IndexFunc(w.in[p], func(in *incoming) bool { return in.l == nil })
	in := w.in[p][i]
	w.mu.Unlock()
	w.gone(p, in)
}

// enter serves a peer's connection.
func (w *web) enter(fc *frameConn, them greeting) {
	p := int(them.rank)
	sockets.Tune(fc.c, w.c.partition)
	l := w.m.newLink(p, fc)
	l.inward = true
	l.held.Store(true)
	w.mu.Lock()
	i := slices.IndexFunc(w.in[p], func(in *incoming) bool { return in.l == nil })
	in := w.in[p][i]
	in.l = l
	var before chan struct{}
	if i > 0 {
		before = w.in[p][i-1].done
	}
	served := w.m.serve(l, func() {
		if before != nil {
			select {
			case <-before:
			case <-w.m.stopping:
			}
		}
		l.seen.Store(now())
		l.held.Store(false)
		l.read()
		w.m.remove(l)
		w.gone(p, in)
	})
	w.thin()
	w.turn()
	w.mu.Unlock()
	if !served {
		fc.close()
		w.gone(p, in)
	}
}

// gone ends a place, and then what waited for its end.
func (w *web) gone(peer int, in *incoming) {
	w.mu.Lock()
	w.in[peer] = slices.DeleteFunc(w.in[peer], func(o *incoming) bool { return o == in })
	var held []notice
	if len(w.in[peer]) == 0 {
		delete(w.in, peer)
		held = w.held[peer]
		delete(w.held, peer)
	}
	w.turn()
	w.mu.Unlock()
	close(in.done)
	for _, n := range held {
		w.apply(n)
	}
}

// guests lists the connections that peers have dialed and that are not pinned. The caller holds mu.
func (w *web) guests() (list []*meshLink) {
	for _, l := range w.m.all() {
		if l.inward && !l.stays.Load() && !l.resting.Load() {
			list = append(list, l)
		}
	}
	return list
}

// thin asks the sender of the connection that has carried nothing for the longest time to let it rest, if there are too
// many. The caller holds mu.
func (w *web) thin() {
	list := slices.DeleteFunc(w.guests(), func(l *meshLink) bool { return l.asked })
	if len(list) <= w.c.guests || w.silent {
		return
	}
	l := slices.MinFunc(list, func(a, b *meshLink) int { return int(a.used.Load() - b.used.Load()) })
	l.asked = true
	w.tasks.Go(func() { _ = l.fc.write(w.ctx, frameRest, 0, 0, nil) })
}

// room waits for a moment while too many peers are connected.
func (w *web) room() {
	ctx, cancel := context.WithTimeout(w.ctx, acceptPause)
	defer cancel()
	_ = w.until(ctx, func() bool { return w.closed || len(w.guests()) < 2*w.c.guests })
}

// handle takes a frame that only a web has.
func (w *web) handle(l *meshLink, h header, data []byte) error {
	switch {
	case h.kind == frameNotices:
		list, err := decodeNotices(data, w.e.size)
		if err != nil {
			return err
		}
		for _, n := range list {
			w.takeNotice(l, n)
		}
	case h.kind == frameRest && l.inward:
		l.resting.Store(true)
	case h.kind == frameRest:
		w.wanted(l)
	case h.kind == frameStay && l.inward:
		l.stays.Store(true)
	default:
		return fmt.Errorf("%w: frame kind %d from a peer", ErrProtocol, h.kind)
	}
	return nil
}

// stop says goodbye to all, and ends all connections.
func (w *web) stop() {
	w.mu.Lock()
	w.closed = true
	for _, o := range w.out {
		o.cancel()
	}
	w.turn()
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	w.flush(ctx)
	cancel()
	w.mu.Lock()
	w.silent = true
	w.mu.Unlock()
	w.cancel()
	w.tasks.Wait()
	w.gate.shut()
	w.gate.wait()
	w.m.stop()
}

// abandon ends a web that never came up, without a goodbye.
func (w *web) abandon() {
	w.mu.Lock()
	w.closed, w.silent = true, true
	w.mu.Unlock()
	w.cancel()
	w.tasks.Wait()
	w.gate.shut()
	w.gate.wait()
	w.m.abandon()
}
