package goccl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goccl/goccl/job/agreement"
	"github.com/goccl/goccl/job/bootstrap"
)

// Shrink makes a communicator of the remaining ranks. All ranks that stay must call it, also after others have died.
// Their exclude lists may differ. The ranks agree on the failed set: all ranks that one of them excludes, and those
// that died before they called Shrink. Ranks that die during Shrink are left out, too. Either all ranks get the same
// communicator, or all get an error that names a rank. With abort, running work is aborted first.
//
// An excluded rank that is alive, because it was only stopped, gets an error when it calls Shrink. change, if there is
// one, changes the Config that the new communicator gets from c.
func (c *Comm) Shrink(ctx context.Context, exclude []int, abort bool, change ...func(*Config)) (*Comm, error) {
	if c.closed.Load() {
		return nil, &Error{Op: "shrink", Rank: c.rank, Peer: -1, Err: ErrClosed}
	}
	for _, r := range exclude {
		if r < 0 || r >= c.size {
			return nil, c.errorf("shrink", ErrInvalidArgument, "rank %d to exclude is outside 0…%d", r, c.size-1)
		}
		if r == c.rank {
			return nil, c.errorf("shrink", ErrInvalidArgument, "an excluded rank must not call Shrink")
		}
	}
	if len(exclude) == 0 && !c.damaged() {
		return nil, c.errorf("shrink", ErrInvalidArgument, "no rank to exclude, and none has failed")
	}
	cfg, err := c.cfg.changed(change)
	if err != nil {
		return nil, err
	}
	if abort {
		c.abort(nil) // the peers learn by the call
	}
	ctx, stop := context.WithTimeout(ctx, c.cfg.Timeout)
	defer stop()
	for number := c.council.Begin(0); ; {
		sub, err := c.shrink(ctx, cfg, exclude)
		var later *agreement.Overtaken
		if errors.As(err, &later) {
			number = c.council.Begin(max(number+1, later.Number))
			continue
		}
		if err == nil {
			return sub, nil
		}
		err = c.shrinkError(err)
		if !errors.Is(err, agreement.ErrExcluded) {
			c.council.Withdraw(blamed(err))
		}
		return nil, err
	}
}

// damaged reports whether the communicator has failed or a peer is in Shrink. It waits up to blameDelay for such a
// report.
func (c *Comm) damaged() bool {
	c.council.Listen()
	late := time.After(blameDelay)
	for c.AsyncError() == nil {
		peer, changed := c.council.Calling(math.MaxUint64)
		if peer >= 0 {
			return true
		}
		select {
		case <-changed:
		case <-c.status.work.Done():
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
func (c *Comm) shrink(ctx context.Context, cfg Config, exclude []int) (*Comm, error) {
	mine := agreement.Contribution{Excludes: agreement.NewSet(c.size, exclude...), Fine: true, Blames: -1,
		Nonce: rand.Uint64()}
	out, err := c.council.Agree(ctx, 0, mine)
	if err != nil {
		return nil, err
	}
	for step := uint32(1); ; step++ {
		members := out.Members()
		sub, failed := join(ctx, ctx, "shrink", cfg, c.boot, members, bootstrap.OnceSpace(out.ID()))
		if failed != nil && ctx.Err() != nil { // there is no time to agree on who failed
			return nil, failed
		}
		mine := agreement.Contribution{Excludes: agreement.NewSet(c.size), Fine: failed == nil, Blames: blamed(failed),
			Nonce: rand.Uint64()}
		for r := range c.size {
			if !slices.Contains(members, r) || errors.Is(failed, ErrPeerDead) && r == mine.Blames {
				mine.Excludes.Add(r)
			}
		}
		next, err := c.council.Agree(ctx, step, mine)
		culprit := -1
		if err == nil {
			if culprit = next.NotFine(members); culprit < 0 {
				return sub, nil
			}
		}
		if sub != nil {
			_ = sub.Close()
		}
		switch {
		case err != nil:
			return nil, err
		case len(next.Members()) < len(members):
			out = next // another rank has died
		case failed != nil:
			return nil, failed
		default:
			return nil, &agreement.Error{Peer: culprit, Err: fmt.Errorf("%w: rank %d could not do its part%s", ErrAborted,
				culprit, because(next.Known[culprit].Blames))}
		}
	}
}

func because(rank int) string {
	if rank < 0 {
		return ""
	}
	return fmt.Sprintf(", because of rank %d", rank)
}

// blamed returns the rank that an error blames, or -1.
func blamed(err error) int {
	var ae *Error
	if errors.As(err, &ae) {
		return ae.Peer
	}
	return -1
}

// shrinkError converts an error of the agreement to an *Error of this package.
func (c *Comm) shrinkError(err error) error {
	var ae *agreement.Error
	if !errors.As(err, &ae) {
		return c.wrap("shrink", err)
	}
	e := &Error{Op: "shrink", Rank: c.rank, Peer: ae.Peer, Err: fmt.Errorf("%w: %w", ErrAborted, ae.Err)}
	if errors.Is(err, context.DeadlineExceeded) {
		e.Err = fmt.Errorf("%w: %w", ErrTimeout, ae.Err)
		if stopped := c.stopped(); stopped != nil {
			e.Peer, e.Verdict = stopped.Peer, stopped.Verdict
		}
	}
	return e
}
