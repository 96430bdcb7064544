package goccl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/membership"
)

// NoColor excludes a rank from every communicator that Split makes.
const NoColor = -1

// Split makes one new communicator for each color. Its ranks are ordered by key, then by their rank in c. Split is
// collective over c. A rank with NoColor takes part and gets nil. change, if there is one, changes the Config that the
// new communicator gets from c.
//
// If a rank of c dies meanwhile, the other ranks of each color all get their communicator, or all get an error. Where
// the dead rank is a member, some may get the communicator; the next call on it then fails.
func (c *Comm) Split(ctx context.Context, color, key int, change ...func(*Config)) (sub *Comm, err error) {
	if err = c.whole("split"); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, c.cfg.Timeout)
	defer stop()
	ctx, call := c.group.BeginJoint(ctx, "split")
	defer func() { call.End(err) }()
	if color < NoColor {
		return nil, c.errorf("split", ErrInvalidArgument, "color %d is negative and not NoColor", color)
	}
	cfg, err := c.cfg.changed(change)
	if err != nil {
		return nil, err
	}
	ranks, space, err := call.Colors(ctx, color, key)
	if err != nil || color == NoColor {
		return nil, err
	}
	call.Joins = true
	if sub, err = join(ctx, call.Last, "split", cfg, c.boot, ranks, space); err != nil {
		return nil, c.group.JointError(ctx, "split", err)
	}
	return sub, nil
}

// Grow makes a communicator of size ranks: the ranks of c, which keep their numbers, and new ranks behind them. All
// ranks of c call it with the same size. One of them, whose process made the unique id (bootstrap.NewUniqueID), passes
// the id; the others pass nil. A new rank (number c.WorldSize() or above) joins by the id, as it would join any job:
// bootstrap.JoinID and NewComm. c remains usable. change, if there is one, changes the Config that the new
// communicator gets from c.
//
//  1. Exchange the id within c. It is used once: all ranks refuse a call in which no rank, or more than one, has an id.
//  2. Join the new ranks at that id. The connections belong to the new communicator, so it outlives c.
//  3. Set the communicator up, as NewComm does on the new ranks.
//
// A Grow that fails closes the id.
func (c *Comm) Grow(ctx context.Context, size int, id *bootstrap.UniqueID, change ...func(*Config)) (grown *Comm,
	err error,
) {
	defer func() {
		if err == nil || id == nil {
			return
		}
		if errors.Is(err, ErrTimeout) {
			time.Sleep(membership.BlameDelay) // the others' deadlines pass too; then they name the rank that has not come
		}
		_ = id.Close() // else the root would wait for the ranks that do not come
	}()
	if err := c.whole("grow"); err != nil {
		return nil, err
	}
	cfg, failed := c.cfg.changed(change)
	ctx, stop := context.WithTimeout(ctx, cmp.Or(max(0, cfg.Timeout), c.cfg.Timeout))
	defer stop()
	bounded, call := c.group.BeginJoint(ctx, "grow")
	defer func() { call.End(err) }()
	switch {
	case failed != nil:
		return nil, failed
	case size <= c.size || size > bootstrap.MaxWorldSize:
		return nil, c.errorf("grow", ErrInvalidArgument, "%d ranks: want more than the %d that there are, at most %d", size,
			c.size, bootstrap.MaxWorldSize)
	}
	agreed, err := call.AgreeOnID(bounded, size, id)
	if err != nil {
		return nil, err
	}
	boot, err := bootstrap.JoinID(bounded, agreed, c.rank, size, bootstrap.WithTimeout(cfg.Timeout))
	if err != nil {
		return nil, c.group.JoinError(bounded, err)
	}
	cfg.Bootstrap, cfg.ranks = boot, nil
	call.Joins = true
	grown, err = join(bounded, call.Last, "grow", cfg, boot, bootstrap.Everyone(size), tags.SpaceOfCommunicators)
	if err != nil {
		return nil, errors.Join(c.group.JoinError(bounded, err), boot.Close())
	}
	grown.owned = boot
	return grown, nil
}

// Shrink makes a communicator of the remaining ranks. All ranks that stay must call it, also after others have died.
// Their exclude lists may differ. The ranks agree on the failed set: all ranks that one of them excludes, and those
// that died before they called Shrink. Ranks that die during Shrink are left out, too. Either all ranks get the same
// communicator, or all get an error that names a rank. With abort, running work is aborted first.
//
// Config.Quorum and Config.Vote decide whether the remaining ranks may go on; if not, all of them get ErrNoQuorum.
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
	if len(exclude) == 0 && !c.group.Damaged() {
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
	return membership.Shrink(ctx, c.group, exclude, func(ctx context.Context, members []int, space int) (*Comm, error) {
		return join(ctx, ctx, "shrink", cfg, c.boot, members, space)
	})
}

// Revoke ends all running and later work of this rank, as Abort does, but the communicator can still Split, Shrink and
// Close. Every rank must call it; the call does not wait for other ranks.
func (c *Comm) Revoke() {
	c.revoked.Store(true)
	cause := c.group.Fault("communicator", -1, fmt.Errorf("%w: it was revoked", ErrAborted))
	c.engine.Abort(cause)
	c.status.Revoke(cause) // aborts the registered algorithms
	c.endDetached(cause)
}

// whole returns nil if another communicator can be made from this one.
func (c *Comm) whole(op string) error {
	if c.revoked.Load() && !c.closed.Load() {
		return c.status.Err()
	}
	return c.usable(op)
}

// changed returns the configuration of a communicator made from one with cfg.
func (cfg Config) changed(change []func(*Config)) (Config, error) {
	if len(change) == 0 {
		return cfg, nil
	}
	cfg.OpTimeout = cfg.asked
	for _, f := range change {
		f(&cfg)
	}
	err := cfg.fill()
	return cfg, err
}
