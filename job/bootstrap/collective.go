package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// leaveTimeout bounds the time that Close spends on notices to peers.
const leaveTimeout = 500 * time.Millisecond

// exchange implements the collectives of fewer than relayFrom ranks as a direct exchange: every rank sends to every
// other, then waits for all at once.
//
//  1. Take the next sequence number. The numbers agree because all ranks make the same calls.
//  2. Send op and data to every other rank, starting with the next higher one, so that the ranks do not all send to
//     the same rank first.
//  3. Receive one message of that number from every rank. The death of a missing rank ends the wait at once; a timeout
//     names exactly the ranks that are missing.
func (g *group) exchange(ctx context.Context, op collectiveOp, data []byte) ([][]byte, error) {
	if len(data) > MaxMessage {
		return nil, g.fail(op.String(), -1, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), MaxMessage))
	}
	ctx, cancel := operationContext(ctx, g.e.timeout)
	defer cancel()
	g.collectiveMu.Lock()
	defer g.collectiveMu.Unlock()
	g.sequence++
	tag := g.sequence

	n := len(g.members)
	if n >= g.e.relayFrom {
		return g.relay(ctx, op, tag, data)
	}
	out := make([][]byte, n)
	out[g.rank] = append([]byte{}, data...)
	if n == 1 {
		return out, nil
	}
	message := make([]byte, 1+len(data))
	message[0] = byte(op)
	copy(message[1:], data)
	keys := make([]key, 0, n-1)
	for i := 1; i < n; i++ {
		r := (g.rank + i) % n
		err := cmp.Or(contextError(ctx), g.e.send(ctx, frameCollective, g.members[r], g.space, tag, message))
		if err != nil {
			if ctx.Err() != nil && (i == 1 || !errors.Is(err, ErrTimeout)) {
				r = -1 // the peer did not hold this rank up
			}
			return nil, g.culprit(op, r, err)
		}
		keys = append(keys, key{g.members[r], frameCollective, g.space, tag})
	}
	wrong := -1
	i, err := g.e.box.collect(ctx, keys, func(i int, data []byte) {
		r := (g.rank + 1 + i) % n
		if len(data) == 0 || collectiveOp(data[0]) != op {
			wrong = r
			data = []byte{0}
		}
		out[r] = data[1:]
	})
	switch {
	case wrong >= 0:
		return nil, g.fail(op.String(), wrong, errOtherCollective)
	case err != nil && i >= 0:
		return nil, g.culprit(op, (g.rank+1+i)%n, err)
	case err != nil:
		missing := missingRanks(n, func(r int) bool { return out[r] != nil })
		return nil, g.fail(op.String(), late(missing, err),
			fmt.Errorf("%w; still waiting for ranks %s", err, rankList(g.names(missing))))
	}
	return out, nil
}

var errOtherCollective = fmt.Errorf("%w: the peer is in another collective; all ranks must make the same calls in "+
	"the same order", ErrProtocol)

// causeDelay is how long a collective that failed because a peer left waits for a death that explains it.
const causeDelay = 100 * time.Millisecond

// culprit makes the error of a collective that failed because of rank. A peer that leaves in the middle has often
// detected another rank's death just before this rank does. Then the dead rank is to blame, not the peer that left.
func (g *group) culprit(op collectiveOp, rank int, err error) error {
	for end := time.Now().Add(causeDelay); err == errPeerClosed; time.Sleep(causeDelay / 50) {
		if r, cause := g.firstDeath(); cause != nil {
			rank, err = r, cause
		}
		if time.Now().After(end) || g.isClosed() {
			break
		}
	}
	var w *withdrawal
	if errors.As(err, &w) {
		rank = g.blames(w)
	}
	if errors.Is(err, ErrPeerDead) {
		if r, cause := g.firstDeath(); cause != nil {
			rank, err = r, cause
		}
	}
	return g.fail(op.String(), rank, err)
}

// firstDeath returns the member whose death was detected first by this rank.
func (g *group) firstDeath() (rank int, cause error) {
	g.e.mu.Lock()
	defer g.e.mu.Unlock()
	for _, d := range g.e.deaths {
		if r, ok := g.index[d.peer]; ok {
			return r, d.cause
		}
	}
	return -1, nil
}

type collectiveOp byte

const (
	opAllGather collectiveOp = iota + 1
	opBarrier
	opSub
)

func (o collectiveOp) String() string {
	switch o {
	case opAllGather:
		return "AllGather"
	case opBarrier:
		return "Barrier"
	}
	return "Sub"
}

func (g *group) AllGather(ctx context.Context, data []byte) ([][]byte, error) {
	return g.exchange(ctx, opAllGather, data)
}

func (g *group) Barrier(ctx context.Context) error {
	_, err := g.exchange(ctx, opBarrier, nil)
	return err
}

// names converts ranks to the numbers that errors use.
func (g *group) names(ranks []int) []int {
	out := make([]int, len(ranks))
	for i, r := range ranks {
		out[i] = g.name(r)
	}
	return out
}

// late returns the rank that has not come in time, or -1: several are missing, or the caller has ended the wait.
func late(missing []int, err error) int {
	if len(missing) == 1 && errors.Is(err, ErrTimeout) {
		return missing[0]
	}
	return -1
}

func missingRanks(n int, have func(r int) bool) []int {
	var missing []int
	for r := range n {
		if !have(r) {
			missing = append(missing, r)
		}
	}
	return missing
}

// rankList formats ranks; it truncates a long list.
func rankList(ranks []int) string {
	const most = 16
	if len(ranks) <= most {
		return fmt.Sprint(ranks)
	}
	return fmt.Sprintf("%v and %d more", ranks[:most], len(ranks)-most)
}
