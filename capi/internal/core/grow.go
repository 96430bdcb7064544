package core

import (
	"context"
	"fmt"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/job/bootstrap"
)

// CommUniqueID makes the id by which new ranks join o in the next Grow. This process serves it. There is one at a time.
func CommUniqueID(o Open, timeout time.Duration) (bootstrap.UniqueID, error) {
	id, err := UniqueIDCreate(timeout)
	if err == nil && !o.c.growID.CompareAndSwap(nil, &id) {
		_ = id.Close()
		err = fmt.Errorf("%w: the communicator has a unique id that no grow has used yet", ErrInvalidUsage)
	}
	return id, err
}

// CommGrowStart begins a communicator of the ranks of o, which keep their numbers, and new ones behind them. One rank
// of o has the id: from its caller, or from CommUniqueID. New ranks Start with the id instead.
func CommGrowStart(o Open, size int, id *bootstrap.UniqueID, cfg *Config) (Handle, error) {
	if size <= o.c.size {
		return 0, fmt.Errorf("%w: %d ranks, and there are %d already", ErrInvalidArgument, size, o.c.size)
	}
	change, err := o.c.change(cfg)
	if err != nil {
		return 0, err
	}
	if made := o.c.growID.Swap(nil); id == nil {
		id = made
	} else {
		id = new(*id) // the caller's memory is its own again when the call returns
	}
	return o.c.descend(cfg, func(ctx context.Context) (*goccl.Comm, error) {
		inner, err := o.inner.Grow(ctx, size, id, change...)
		if err != nil && id != nil {
			_ = id.Close()
		}
		return inner, err
	})
}
