package goccl

import (
	"context"
	"errors"

	"github.com/goccl/goccl/job/share"
)

// suspender is an engine that can give back memory of the device.
type suspender interface {
	// Suspend frees what Resume makes anew. The engine has no work, on any rank.
	Suspend(ctx context.Context) error
	// Resume is collective.
	Resume(ctx context.Context) error
	// Memory returns the bytes that Suspend frees, and the others that the engine has.
	Memory() (suspendable, persistent int64)
}

// Memory describes the memory of a communicator's engine on its device, in bytes. It does not count memory of
// registered algorithms, or of windows, which is the caller's.
type Memory struct {
	Suspendable int64 // allocated, or freed by Suspend
	Persistent  int64
	Suspended   bool
}

func (c *Comm) suspender(op string) (suspender, error) {
	s, ok := c.engine.(suspender)
	if !ok {
		return nil, c.errorf(op, ErrUnsupported, "the engine of %s cannot", c.dev.ID())
	}
	return s, nil
}

// Memory returns what the communicator's engine has allocated on its device.
func (c *Comm) Memory() (Memory, error) {
	s, err := c.suspender("memory")
	if err != nil {
		return Memory{}, err
	}
	m := Memory{Suspended: c.suspended.Load()}
	m.Suspendable, m.Persistent = s.Memory()
	return m, nil
}

// Suspend frees the memory that the communicator needs only for its work, which on GPUs is nearly all of it, and unmaps
// all memory of peers, except cudaMalloc memory of other processes. All addresses stay reserved: graphs that were
// captured before may be launched after Resume. It is collective. It waits for this rank's work, and for the other
// ranks. Until Resume the communicator can only be resumed, aborted and closed, and no graph of it may be launched.
func (c *Comm) Suspend(ctx context.Context) error {
	const op = "suspend"
	return c.pause(ctx, op, func(ctx context.Context, s suspender) error {
		if err := c.drain(ctx); err != nil {
			return err
		}
		if err := c.boot.Barrier(ctx); err != nil { // no rank's work accesses this rank's memory any more
			return err
		}
		c.suspended.Store(true)
		return errors.Join(s.Suspend(ctx), share.SuspendArenas(c.boot), c.flats.Suspend(ctx))
	})
}

// Resume makes the memory anew, at the same addresses. It is collective.
func (c *Comm) Resume(ctx context.Context) error {
	const op = "resume"
	if !c.suspended.Load() {
		return c.errorf(op, ErrInvalidUsage, "the communicator is not suspended")
	}
	return c.pause(ctx, op, func(ctx context.Context, s suspender) error {
		if err := s.Resume(ctx); err != nil {
			return err
		}
		if err := share.ResumeArenas(ctx, c.boot); err != nil {
			return err
		}
		if err := c.flats.Resume(ctx); err != nil {
			return err
		}
		c.suspended.Store(false)
		return nil
	})
}

func (c *Comm) pause(ctx context.Context, op string, f func(context.Context, suspender) error) error {
	s, err := c.suspender(op)
	if err != nil {
		return err
	}
	return c.bounded(ctx, op, func(ctx context.Context) error { return f(ctx, s) })
}
