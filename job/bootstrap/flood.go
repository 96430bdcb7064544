package bootstrap

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// spread tells all ranks, and returns when the connections have taken it or ctx has ended.
func (w *web) spread(ctx context.Context, n notice) {
	n.from = uint32(w.e.rank)
	w.mu.Lock()
	if w.known.add(n) {
		w.pass(nil, n)
	}
	w.mu.Unlock()
	w.flush(ctx)
}

// pass queues n for all connections but one. The caller holds mu.
func (w *web) pass(except *meshLink, n notice) {
	for _, l := range w.m.all() {
		if l == except || l.resting.Load() {
			continue
		}
		l.news = append(l.news, n)
		if !l.telling && !w.silent {
			l.telling = true
			w.tasks.Go(func() { w.writeNotices(l) })
		}
	}
}

// writeNotices writes what is queued for a connection. A peer that does not read holds up no other.
func (w *web) writeNotices(l *meshLink) {
	for {
		w.mu.Lock()
		list := l.news[:min(len(l.news), maxNotices)]
		l.news = l.news[len(list):]
		if len(list) == 0 {
			l.telling, l.news = false, nil
			w.turn()
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		if l.fc.write(w.ctx, frameNotices, 0, 0, appendNotices(nil, list)) != nil {
			w.mu.Lock()
			l.news = nil // the reader of l, or the end of the web, shows why
			w.mu.Unlock()
		}
	}
}

// flush waits until nothing is queued, or ctx ends.
func (w *web) flush(ctx context.Context) {
	_ = w.until(ctx, func() bool {
		return !slices.ContainsFunc(w.m.all(), func(l *meshLink) bool { return l.telling })
	})
}

// takeNotice takes a notice that came over l. What the peer sent before it comes first: a notice that a rank ends
// waits while a connection with data of that rank is open, until it comes over this connection.
func (w *web) takeNotice(l *meshLink, n notice) {
	from := int(n.from)
	w.mu.Lock()
	fresh := w.known.add(n) && w.matters(n)
	if fresh {
		w.pass(l, n)
	}
	if n.kind == frameGoodbye || n.kind == frameLeave {
		behind := l.inward && l.peer == from && len(w.in[from]) == 1
		if n.kind == frameGoodbye && behind {
			behind = false // the end of the connection follows
		}
		switch i := slices.Index(w.held[from], n); {
		case fresh && !behind && len(w.in[from]) > 0:
			w.held[from] = append(w.held[from], n)
			fresh = false
		case behind && i >= 0:
			w.held[from] = slices.Delete(w.held[from], i, i+1)
			fresh = true
		}
	}
	w.mu.Unlock()
	if fresh && from != w.e.rank {
		w.apply(n)
	}
}

// enough is the number of ranks whose accusations show a death.
const enough = 2

// matters records an accusation, and reports whether others need it: not if they need no more of this peer. The caller
// holds mu.
func (w *web) matters(n notice) bool {
	if n.kind != frameAccuse {
		return true
	}
	peer := int(n.peer)
	if w.accusers[peer] == nil {
		w.accusers[peer] = map[int]bool{}
	}
	needed := len(w.accusers[peer]) < enough
	w.accusers[peer][int(n.from)] = true
	return needed
}

func (w *web) apply(n notice) {
	from := int(n.from)
	switch n.kind {
	case frameGoodbye:
		w.e.departed(from)
		w.leftOut(from)
	case frameLeave:
		w.e.departs(from, n.space, n.reason())
	case frameCollective:
		w.e.box.put(key{from, frameCollective, n.space, callTag}, binary.LittleEndian.AppendUint64(nil, n.tag))
	case frameAccuse:
		w.e.accusedBy(from, int(n.peer))
		w.judge(int(n.peer))
	}
}

// judge decides about a peer that others accuse. Two ranks that cannot reach a third show that it is dead; one may have
// lost only its own connection. If a rank has a single watcher left, that one is enough. A rank that watches the
// accused itself believes its own connection.
func (w *web) judge(accused int) {
	if accused == w.e.rank {
		return
	}
	w.mu.Lock()
	guilty := len(w.accusers[accused]) >= min(enough, w.watchers(accused))
	var links []*meshLink
	for _, l := range w.m.all() {
		if l.peer == accused {
			guilty = guilty && !l.stays.Load()
			links = append(links, l)
		}
	}
	guilty = guilty && !w.silent
	if guilty && len(links) == 0 {
		w.tasks.Go(func() { w.e.judge(accused, errOthersLost, false) })
	}
	w.mu.Unlock()
	for _, l := range links {
		if guilty {
			l.broken(errOthersLost) // what has come from it is read before
		}
	}
}

// watchers counts the ranks of the job that are connected to peer for good, have not gone, and are not this rank.
func (w *web) watchers(peer int) (count int) {
	w.e.box.mu.Lock()
	defer w.e.box.mu.Unlock()
	for d := 1; d < w.e.size; d *= 2 {
		for _, r := range []int{(peer + d) % w.e.size, (peer - d + w.e.size) % w.e.size} {
			if r != peer && w.e.box.peers[r].gone == nil {
				count++
			}
		}
	}
	return max(1, count)
}

// accuse tells all ranks that this rank is about to give up peer.
func (w *web) accuse(peer int) {
	ctx, cancel := context.WithTimeout(w.ctx, accusationTimeout)
	defer cancel()
	w.spread(ctx, notice{kind: frameAccuse, peer: uint32(peer)})
}

// until waits until is, under mu, is true.
func (w *web) until(ctx context.Context, is func() bool) error {
	for {
		w.mu.Lock()
		done, turned := is(), w.turned
		w.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return contextError(ctx)
		}
	}
}

// turn wakes until. The caller holds mu.
func (w *web) turn() {
	close(w.turned)
	w.turned = make(chan struct{})
}

var errOthersLost = fmt.Errorf("%w: the ranks that are connected to it have lost it", ErrPeerDead)

// acceptPause lets another connection close before one more is accepted.
const acceptPause = 250 * time.Millisecond
