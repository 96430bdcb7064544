package goccl

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
)

// Grow makes a communicator of size ranks: those of c, which keep their numbers, and new ones behind them. All ranks of
// c call it with the same size. One of them, whose process made the unique id (bootstrap.NewUniqueID), passes the id;
// the others pass nil. A new rank, from c's size on, joins by the id as it would join any job: bootstrap.NewTCP, Init
// and NewComm. c remains usable. change, if there is one, changes the Config that the new communicator gets from c.
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
		if errors.Is(err, bootstrap.ErrTimeout) || errors.Is(err, ErrTimeout) {
			time.Sleep(blameDelay) // the others' deadlines pass too; then they name the rank that has not come
		}
		_ = id.Close() // else the root would wait for the ranks that do not come
	}()
	if err := c.whole("grow"); err != nil {
		return nil, err
	}
	cfg, failed := c.cfg.changed(change)
	ctx, stop := context.WithTimeout(ctx, cmp.Or(max(0, cfg.Timeout), c.cfg.Timeout))
	defer stop()
	bounded, call := c.beginJoint(ctx, "grow")
	defer func() { call.end(err) }()
	switch {
	case failed != nil:
		return nil, failed
	case size <= c.size || size > bootstrap.MaxWorldSize:
		return nil, c.errorf("grow", ErrInvalidArgument, "%d ranks: want more than the %d that there are, at most %d", size,
			c.size, bootstrap.MaxWorldSize)
	}
	agreed, err := c.agreeOnID(bounded, call, size, id)
	if err != nil {
		return nil, err
	}
	boot := bootstrap.NewTCP(c.rank, size, bootstrap.WithTimeout(cfg.Timeout))
	if err := boot.Init(bounded, agreed); err != nil {
		return nil, errors.Join(c.joinError(bounded, err), boot.Close())
	}
	everyone := make([]int, size)
	for r := range everyone {
		everyone[r] = r
	}
	cfg.Bootstrap, cfg.ranks = boot, nil
	call.joins = true
	grown, err = join(bounded, call.last, "grow", cfg, boot, everyone, tags.SpaceOfCommunicators)
	if err != nil {
		return nil, errors.Join(c.joinError(bounded, err), boot.Close())
	}
	grown.owned = boot
	return grown, nil
}

// joinError returns the error of a rank that could not join the grown communicator. The death of a rank of c explains
// it best: a rank that knows of it gives up, and this rank may learn of that first.
// Of the death of a new rank c does not learn.
func (c *Comm) joinError(ctx context.Context, err error) error {
	named := c.wrap("grow", err)
	newcomer := errors.Is(named, ErrPeerDead) && blamed(named) >= c.size
	if !newcomer && !errors.Is(err, bootstrap.ErrTimeout) && !errors.Is(err, ErrTimeout) {
		select {
		case <-c.status.ctx.Done():
		case <-time.After(blameDelay):
		}
	}
	return c.jointError(ctx, "grow", err)
}

// growMark is the prefix of the messages of a Grow, which tells them from other messages. The size, the number of the
// call and the id, if this rank has it, follow.
const growMark = "grow"

// agreeOnID returns the id that one rank of c has.
func (c *Comm) agreeOnID(ctx context.Context, call *jointCall, size int, id *bootstrap.UniqueID) (
	agreed bootstrap.UniqueID, err error,
) {
	mine := binary.LittleEndian.AppendUint64([]byte(growMark), uint64(size))
	common := len(mine)
	mine = call.mark(mine)
	length := len(mine)
	if id != nil {
		mine = append(mine, id[:]...)
	}
	all, err := c.boot.AllGather(ctx, mine)
	if err != nil {
		return agreed, c.jointError(ctx, "grow", err)
	}
	from := -1
	for r, b := range all {
		if len(b) < length || string(b[:common]) != string(mine[:common]) {
			return agreed, &Error{Comm: c.cfg.Name, Op: "grow", Rank: c.rank, Peer: r, Err: fmt.Errorf("%w: this rank is in "+
				"Grow to %d ranks and the peer in something else: all ranks must make the same calls in the same order",
				ErrMismatch, size)}
		}
		call.take(b[common:])
		if len(b) == length {
			continue
		}
		if from >= 0 {
			return agreed, c.errorf("grow", ErrInvalidArgument, "ranks %d and %d both have a unique id: one rank makes it",
				from, r)
		}
		if agreed, err = bootstrap.ParseUniqueID(b[length:]); err != nil {
			return agreed, c.wrap("grow", err)
		}
		from = r
	}
	if from < 0 {
		return agreed, c.errorf("grow", ErrInvalidArgument, "no rank has a unique id: one makes it and passes it to Grow")
	}
	return agreed, nil
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
