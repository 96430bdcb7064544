package bootstrap

import (
	"context"
	"fmt"
	"math"
	"sync"
)

// Leave tells the other members of b that this rank sends nothing more on b and does not wait for them. For them b is
// as after Close, and the end of this process is no longer a death in b. Here b stays open until Close. Leave does not
// wait for the members. It ignores a Bootstrap of another package without this feature.
func Leave(b Bootstrap) {
	if g, ok := b.(interface{ leave() }); ok {
		g.leave()
	}
}

// AwaitLeave waits until every other member of b has left it, has closed it or is dead, or until ctx ends.
func AwaitLeave(ctx context.Context, b Bootstrap) {
	if g, ok := b.(interface{ awaitLeave(context.Context) }); ok {
		g.awaitLeave(ctx)
	}
}

// GiveUp is Leave for a rank that fails while others still need it, for example in a set-up. All their waits in b end
// with an ErrGaveUp that carries err, and GivenUp reports it. blames is the member that caused err, -1: none.
func GiveUp(b Bootstrap, blames int, err error) {
	if g, ok := b.(interface{ giveUp([]byte) }); ok {
		g.giveUp(EncodeFailure(blames, err))
	}
}

// GivenUp returns a channel that delivers the rank to blame each time a member of b gives up. Close closes it.
func GivenUp(b Bootstrap) <-chan PeerFailure {
	if g, ok := b.(interface{ givenUp() <-chan PeerFailure }); ok {
		return g.givenUp()
	}
	none := make(chan PeerFailure)
	close(none)
	return none
}

// withdrawal is why a member has given up.
type withdrawal struct {
	from    int // endpoint rank
	culprit int // group rank to blame, -1: from
	why     error
}

func (w *withdrawal) Error() string   { return fmt.Sprintf("%v: %v", ErrGaveUp, w.why) }
func (w *withdrawal) Unwrap() []error { return []error{w.why, ErrGaveUp} }

// blames returns the member to blame for a withdrawal.
func (g *group) blames(w *withdrawal) int {
	if w.culprit >= 0 && w.culprit < len(g.members) {
		return w.culprit
	}
	return g.index[w.from]
}

// departs records that peer has left a space. reason is the argument of giveUp, empty for a plain goodbye.
func (e *endpoint) departs(peer int, space uint64, reason []byte) {
	if len(reason) == 0 {
		e.box.leave(space, peer, errPeerClosed)
		return
	}
	w := &withdrawal{from: peer}
	w.culprit, w.why = DecodeFailure(reason, math.MaxInt)
	e.box.withdraw(space, peer, w)
	e.mu.Lock()
	defer e.mu.Unlock()
	if g := e.groups[space]; g != nil {
		g.withdrawn.report(PeerFailure{Rank: g.blames(w), Err: w})
	}
}

func (g *group) givenUp() <-chan PeerFailure { return g.withdrawn.subscribe() }

// leave sends the notice once. A member that cannot receive it in time detects the end by the goodbye of the endpoint
// or by its own deadline.
func (g *group) leave() { g.giveUp(nil) }

func (g *group) giveUp(reason []byte) {
	g.farewell.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		if g.e.spread != nil {
			g.e.spread(ctx, leaveNotice(g.space, reason))
			return
		}
		var wg sync.WaitGroup // in parallel, so that a member that does not read delays no other
		for _, m := range g.members {
			// A member that has itself left still waits for this notice (AwaitLeave), so this bypasses endpoint.send,
			// which rejects such members.
			if m != g.e.rank && g.e.wasHere(m) {
				wg.Go(func() { _ = g.e.links[m].send(ctx, frameLeave, g.space, 0, reason) })
			}
		}
		wg.Wait()
	})
}

// awaitLeave waits for messages that are never sent: only the end of a member ends such a wait.
func (g *group) awaitLeave(ctx context.Context) {
	for _, m := range g.members {
		if m == g.e.rank {
			continue
		}
		if _, err := g.e.box.collect(ctx, []key{{m, frameLeave, g.space, 0}}, func(int, []byte) {}); ctx.Err() != nil &&
			err != nil {
			return
		}
	}
}

func (t *TCP) leave() {
	if g, err := t.joined("Leave"); err == nil {
		g.leave()
	}
}

func (t *TCP) awaitLeave(ctx context.Context) {
	if g, err := t.joined("Leave"); err == nil {
		g.awaitLeave(ctx)
	}
}

// saidGoodbye reports whether peer has left every group that it shares with this rank: then its exit is not a death.
func (e *endpoint) saidGoodbye(peer int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	shared := false
	for _, g := range e.groups {
		if _, in := g.index[peer]; !in {
			continue
		}
		if !e.box.hasLeft(g.space, peer) {
			return false
		}
		shared = true
	}
	return shared
}

// hasLeft reports whether peer has left one space.
func (b *inbox) hasLeft(space uint64, peer int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left[spacePeer{space, peer}] != nil
}
