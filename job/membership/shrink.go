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

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/agreement"
	"github.com/goccl/goccl/job/bootstrap"
)

// Joiner makes a communicator of some ranks, in a space of bootstrap groups.
type Joiner[C io.Closer] func(ctx context.Context, members []int, space int) (C, error)

// Shrink makes a communicator of the ranks that remain: those that call it, and that none of them excludes.
func Shrink[C io.Closer](ctx context.Context, g *Group, exclude []int, join Joiner[C]) (none C, err error) {
	for number := g.Agreement.Begin(0); ; {
		sub, err := shrink(ctx, g, exclude, join)
		if later, ok := errors.AsType[*agreement.Overtaken](err); ok {
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
//  2. End if they have no quorum. If any rank has a Config.Vote, vote, and agree on that as in 4.
//  3. Join them to a communicator.
//  4. Agree on whether that succeeded on all ranks. A rank that dies meanwhile may make it succeed on some ranks only,
//     or may be a member of the result: then repeat from 2 without the dead. If all ranks agree on success, that
//     communicator is the result, even if a rank dies later.
func shrink[C io.Closer](ctx context.Context, g *Group, exclude []int, join Joiner[C]) (none C, err error) {
	mine := agreement.Contribution{Excludes: agreement.NewSet(g.size, exclude...), Fine: true, Blames: -1,
		Nonce: rand.Uint64()}
	out, err := g.Agreement.Agree(ctx, 0, mine)
	if err != nil {
		return none, err
	}
	for step, voting := uint32(1), g.Voting; ; step++ {
		members := out.Members()
		if !agreement.Quorum(g.Quorum, g.size, g.Job, members) {
			lost := 0
			for slices.Contains(members, lost) {
				lost++
			}
			return none, g.noQuorum(lost, members, "Config.Quorum or GOCCL_QUORUM is %q", g.Quorum)
		}
		var sub C
		var failed error
		if voting {
			failed = g.vote(ctx, members)
		} else {
			sub, failed = join(ctx, members, bootstrap.OnceSpace(out.ID()))
		}
		if failed != nil && ctx.Err() != nil { // there is no time to agree on who failed
			return none, failed
		}
		mine := agreement.Contribution{Excludes: agreement.NewSet(g.size), Fine: failed == nil, Blames: Blamed(failed),
			Against: errors.Is(failed, fault.ErrNoQuorum), Nonce: rand.Uint64()}
		for r := range g.size {
			if !slices.Contains(members, r) || errors.Is(failed, fault.ErrPeerDead) && r == mine.Blames {
				mine.Excludes.Add(r)
			}
		}
		next, err := g.Agreement.Agree(ctx, step, mine)
		culprit := -1
		if err == nil {
			culprit = next.NotFine(members)
		}
		switch {
		case failed != nil:
		case voting && err == nil && culprit < 0:
			voting = false
			continue
		case err == nil && culprit < 0:
			return sub, nil
		case !voting:
			_ = sub.Close()
		}
		switch {
		case err != nil:
			return none, err
		case len(next.Members()) < len(members):
			out, voting = next, g.Voting // another rank has died
		case failed != nil:
			return none, failed
		case next.Known[culprit].Against:
			return none, g.noQuorum(culprit, members, "Config.Vote of rank %d is against it", culprit)
		default:
			return none, fault.Blame(agreement.Part, culprit, "%w: rank %d could not do its part%s", fault.ErrAborted,
				culprit, because(next.Known[culprit].Blames))
		}
	}
}

// vote asks Config.Vote whether the members may go on. It returns when ctx ends, even if the function does not.
func (g *Group) vote(ctx context.Context, members []int) error {
	if g.Vote == nil {
		return nil
	}
	voted := make(chan error, 1)
	go func() { voted <- g.Vote(ctx, g.members.Load().ID, slices.Clone(members)) }()
	var err error
	select {
	case err = <-voted:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return g.noQuorum(-1, members, "Config.Vote of this rank is against it: %w", err)
	}
	return nil
}

// noQuorum is the error of members that must not go on, because of a peer.
func (g *Group) noQuorum(peer int, members []int, why string, args ...any) error {
	return fault.Blame(agreement.Part, peer, "%w: ranks %v of %d must not go on without the rest (%w): end their "+
		"processes, or start them anew to join ranks that went on", fault.ErrNoQuorum, members, g.size,
		fmt.Errorf(why, args...))
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
