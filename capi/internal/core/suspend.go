package core

import (
	"context"
	"fmt"

	"github.com/goccl/goccl"
)

// CommSuspendStart begins to free the communicator's memory; Wait waits for the end.
func CommSuspendStart(a Active) error { return a.background(false, (*goccl.Comm).Suspend) }

// CommResumeStart begins to make it anew.
func CommResumeStart(a Active) error { return a.background(true, (*goccl.Comm).Resume) }

// background runs f in the background, after earlier background work: one thread may call it for several ranks.
// suspended is what the communicator must be: a wrong call is no failure of the communicator.
func (a Active) background(suspended bool, f func(*goccl.Comm, context.Context) error) error {
	before := a.c.last.Load()
	if m, err := a.inner.Memory(); err != nil {
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
		return f(a.inner, ctx)
	})
	a.c.apart.Store(t)
	a.c.last.Store(t)
	return nil
}

// CommMemory returns the bytes that suspending frees, and those that it does not.
func CommMemory(r Ready) (suspendable, persistent uint64, suspended bool, err error) {
	m, err := r.inner.Memory()
	return uint64(m.Suspendable), uint64(m.Persistent), m.Suspended, err
}
