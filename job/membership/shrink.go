package membership

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goccl/goccl/collective/fault"
	"github.com/goccl/goccl/job/agreement"
	"github.com/goccl/goccl/job/bootstrap"
)

// Joiner makes a communicator of some ranks, in a space of bootstrap groups.
type Joiner[C io.Closer] func(ctx context.Context, members []int, space int) (C, error)

// Shrink makes a communicator of the ranks that remain: those that call it, and that none of them excludes.
func Shrink[C io.Closer](ctx context.Context, g *Group, exclude []int, join Joiner[C]) (none C, err error) {
	for number := g.Agreement.Begin(0); ; {
		sub, err := shrink(ctx, g, exclude, join)
		var later *agreement.Overtaken
		if errors.As(err, &later) {
			number = g.Agreement.Begin(max(number+1, later.Number))
			continue
		}
		if err == nil {
			return sub, nil
		}
		err = g.shrinkError(err)
		if !errors.Is(err, agreement.ErrExcluded) {
			g.Agreement.Withdraw(Blamed(err))
		}
		return none, err
	}
}

// Damaged reports whether the communicator has failed or a peer is in Shrink. It waits up to BlameDelay for such a
// report.
func (g *Group) Damaged() bool {
	g.Agreement.Listen()
	late := time.After(BlameDelay)
	for g.Status.Failure() == nil {
		peer, changed := g.Agreement.Calling(math.MaxUint64)
		if peer >= 0 {
			return true
		}
		select {
		case <-changed:
		case <-g.Status.work.Done():
			return true
		case <-late:
			return false
		}
	}
	return true
}

// shrink is one attempt, which all survivors make together:
//
//  1. Agree on the remaining ranks.
//  2. Join them to a communicator.
//  3. Agree on whether that succeeded on all ranks. A rank that dies meanwhile may make it succeed on some ranks only,
//     or may be a member of the result: then repeat from 2 without the dead. If all ranks agree on success, that
//     communicator is the result, even if a rank dies later.
func shrink[C io.Closer](ctx context.Context, g *Group, exclude []int, join Joiner[C]) (none C, err error) {
	mine := agreement.Contribution{Excludes: agreement.NewSet(g.size, exclude...), Fine: true, Blames: -1,
		Nonce: rand.Uint64()}
	out, err := g.Agreement.Agree(ctx, 0, mine)
	if err != nil {
		return none, err
	}
	for step := uint32(1); ; step++ {
		members := out.Members()
		sub, failed := join(ctx, members, bootstrap.OnceSpace(out.ID()))
		if failed != nil && ctx.Err() != nil { // there is no time to agree on who failed
			return none, failed
		}
		mine := agreement.Contribution{Excludes: agreement.NewSet(g.size), Fine: failed == nil, Blames: Blamed(failed),
			Nonce: rand.Uint64()}
		for r := range g.size {
			if !slices.Contains(members, r) || errors.Is(failed, fault.ErrPeerDead) && r == mine.Blames {
				mine.Excludes.Add(r)
			}
		}
		next, err := g.Agreement.Agree(ctx, step, mine)
		culprit := -1
		if err == nil {
			if culprit = next.NotFine(members); culprit < 0 {
				return sub, nil
			}
		}
		if failed == nil {
			_ = sub.Close()
		}
		switch {
		case err != nil:
			return none, err
		case len(next.Members()) < len(members):
			out = next // another rank has died
		case failed != nil:
			return none, failed
		default:
			return none, fault.Blame(agreement.Part, culprit, "%w: rank %d could not do its part%s", fault.ErrAborted,
				culprit, because(next.Known[culprit].Blames))
		}
	}
}

func because(rank int) string {
	if rank < 0 {
		return ""
	}
	return fmt.Sprintf(", because of rank %d", rank)
}

// shrinkError converts an error of the agreement to a *fault.Error.
func (g *Group) shrinkError(err error) error {
	ae := fault.PartOf(err, agreement.Part)
	if ae == nil {
		return g.Wrap("shrink", err)
	}
	e := &fault.Error{Op: "shrink", Rank: g.rank, Peer: ae.Peer,
		Err: fmt.Errorf("%w: %w", fault.ErrAborted, ae.Err)}
	if errors.Is(err, context.DeadlineExceeded) {
		e.Err = fmt.Errorf("%w: %w", fault.ErrTimeout, ae.Err)
		if stopped := g.Stopped(); stopped != nil {
			e.Peer, e.Verdict = stopped.Peer, stopped.Verdict
		}
	}
	return e
}
