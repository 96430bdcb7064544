package bootstrap

import (
	"context"
	"fmt"
	"math"
)

// Leave tells the other members of b that this rank sends nothing more on b and does not wait for them. For them b is
// as after Close, and the end of this process is no longer a death in b. Here b stays open until Close. Leave does not
// wait for the members. It ignores a Bootstrap of another package without this feature.
func Leave(b Bootstrap) {
	if g := groupOf(b); g != nil {
		g.giveUp(nil)
	}
}

// AwaitLeave waits until every other member of b has left it, has closed it or is dead, or until ctx ends.
func AwaitLeave(ctx context.Context, b Bootstrap) {
	g := groupOf(b)
	if g == nil {
		return
	}
	for _, m := range g.members { // with messages of kind 0, which are never sent: only the end of a member ends the wait
		if m == g.e.rank {
			continue
		}
		if _, err := g.e.box.collect(ctx, []key{{m, 0, g.space, 0}}, func(int, []byte) {}); ctx.Err() != nil &&
			err != nil {
			return
		}
	}
}

// GiveUp is Leave for a rank that fails while others still need it, for example in a set-up. All their waits in b end
// with an ErrGaveUp that carries err, and GivenUp reports it. blames is the member that caused err, -1: none.
func GiveUp(b Bootstrap, blames int, err error) {
	if g := groupOf(b); g != nil {
		g.giveUp(EncodeFailure(blames, err))
	}
}

// GivenUp returns a channel that delivers the rank to blame each time a member of b gives up. Close closes it.
func GivenUp(b Bootstrap) <-chan PeerFailure {
	if g := groupOf(b); g != nil {
		return g.withdrawn.subscribe()
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

// left records that peer has left a space. reason is the argument of giveUp, empty for a plain goodbye. The caller
// holds mu.
func (e *endpoint) left(peer int, space uint64, reason string) {
	if reason == "" {
		e.box.leave(space, peer, errPeerClosed)
		return
	}
	w := &withdrawal{from: peer}
	w.culprit, w.why = DecodeFailure([]byte(reason), math.MaxInt)
	e.box.withdraw(space, peer, w)
	if g := e.groups[space]; g != nil {
		g.withdrawn.report(PeerFailure{Rank: g.blames(w), Err: w})
	}
}

// giveUp sends the notice once. A member that cannot receive it in time detects the end by the goodbye of the endpoint
// or by its own deadline.
func (g *group) giveUp(reason []byte) {
	g.farewell.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		g.e.spread(ctx, report{kind: reportLeave, space: g.space, reason: string(reason)})
	})
}

// hasLeft reports whether peer has left one space.
func (b *inbox) hasLeft(space uint64, peer int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left[spacePeer{space, peer}] != nil
}
