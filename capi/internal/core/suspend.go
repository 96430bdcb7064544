package core

import (
	"context"
	"fmt"

	"github.com/goccl/goccl"
)

// CommSuspendStart begins to free the communicator's memory; Wait waits for the end.
func CommSuspendStart(h Handle) error { return background(h, false, (*goccl.Comm).Suspend) }

// CommResumeStart begins to make it anew.
func CommResumeStart(h Handle) error { return background(h, true, (*goccl.Comm).Resume) }

// background runs f in the background, after earlier background work: one thread may call it for several ranks.
// suspended is what the communicator must be: a wrong call is no failure of the communicator.
func background(h Handle, suspended bool, f func(*goccl.Comm, context.Context) error) error {
	c, inner, err := active(h)
	if err != nil {
		return err
	}
	before := c.last.Load()
	if m, err := inner.Memory(); err != nil {
		return err
	} else if !before.running() && m.Suspended != suspended {
		return fmt.Errorf("%w: the communicator is suspended: %v", ErrInvalidUsage, m.Suspended)
	}
	t := start(func(ctx context.Context) error {
		select {
		case <-before.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return f(inner, ctx)
	})
	c.apart.Store(t)
	c.last.Store(t)
	return nil
}

// CommMemory returns the bytes that suspending frees, and those that it does not.
func CommMemory(h Handle) (suspendable, persistent uint64, suspended bool, err error) {
	_, inner, err := readyComm(h)
	if err != nil {
		return 0, 0, false, err
	}
	m, err := inner.Memory()
	return uint64(m.Suspendable), uint64(m.Persistent), m.Suspended, err
}
