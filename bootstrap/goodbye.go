package bootstrap

import (
	"context"
	"sync"
)

// Leave tells the other members of b that this rank neither sends anything more on b nor waits for them. To them it is as after Close, and the end of
// this process is no death in b any more; here b stays open until Close. It does not wait for the members. A Bootstrap of another package that has no
// such thing is left alone.
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

// leave sends the notice once. A member that cannot take it in time finds out from the goodbye of the endpoint or from its own deadline.
func (g *group) leave() {
	g.farewell.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		var wg sync.WaitGroup // so that one who does not read costs the others nothing
		for _, m := range g.members {
			// Those that have left wait for it too (AwaitLeave), so endpoint.send, which refuses them, is not used.
			if m != g.e.rank && g.e.wasHere(m) {
				wg.Go(func() { _ = g.e.links[m].send(ctx, frameLeave, g.space, 0, nil) })
			}
		}
		wg.Wait()
	})
}

// awaitLeave waits for messages that nobody sends: only the end of a member ends such a wait.
func (g *group) awaitLeave(ctx context.Context) {
	for _, m := range g.members {
		if m == g.e.rank {
			continue
		}
		if _, err := g.e.box.collect(ctx, []key{{m, frameLeave, g.space, 0}}, func(int, []byte) {}); ctx.Err() != nil && err != nil {
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

// saidGoodbye reports whether peer has left every group that it shares with this rank: then it may end without a further word.
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
