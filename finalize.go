package goccl

import (
	"context"
	"errors"
	"slices"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
)

// Finalize ends the use of the communicator. It waits until the work that this rank has enqueued has ended, and tells
// the peers that this rank enqueues no more. It does not wait for peers beyond that work. After Finalize no collective
// may be called; the caller should call Close.
//
//  1. Reject new work.
//  2. Wait until all enqueued work has ended, on any stream. Return the death, timeout or mismatch that interrupted
//     it. Do not return an abort: the work has ended, and its waiters have got the error.
//  3. Send the goodbye, first through the engine to the peers' running work, then through the bootstrap. From then on
//     this rank ignores a peer's failure or exit, and peers do not treat the exit of this process as a death.
//
// If ctx ends in step 2, or the work failed, Finalize may be called again; after an error of the work it returns the
// same error. After success a second call does nothing.
func (c *Comm) Finalize(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return c.group.Fault("finalize", -1, ErrClosed)
	}
	if c.done.Load() {
		return nil
	}
	if err := c.drain(ctx); err != nil && (ctx.Err() != nil || !errors.Is(err, ErrAborted)) {
		return c.wrap("finalize", err)
	}
	c.done.Store(true)
	c.status.IgnorePeers()
	tell, cut := c.notices.Leaving(c.AsyncError())
	c.engine.Leave()
	if tell {
		c.notices.Send(fault.ExitClosed, cut)
		c.notices.Flush() // peers receive nothing after the goodbye
	}
	bootstrap.Leave(c.boot)
	if c.owned != nil {
		bootstrap.Leave(c.owned)
	}
	return nil
}

// awaitPeers waits, after Finalize, until the peers have left too: until then a kernel of a peer may still read memory
// that this rank is about to free. On the host device no wait is needed, because memory stays mapped where it is used.
func (c *Comm) awaitPeers() {
	if !c.done.Load() || c.dev.ID().Kind != device.CUDA {
		return
	}
	ctx, stop := context.WithTimeout(c.status.Context(), c.cfg.Timeout)
	defer stop()
	bootstrap.AwaitLeave(ctx, c.boot)
}

// Drain waits until the work that this rank has enqueued so far has ended, on any stream, or until ctx ends. It returns
// the error of this work. AsyncError reports later errors.
func (c *Comm) Drain(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil
	}
	return c.drain(ctx)
}

// drain waits until the work of the engine and the one-sided operations so far have ended.
func (c *Comm) drain(ctx context.Context) error {
	err := c.engine.Drain(ctx)
	if err == nil && c.signals != nil {
		err = c.signals.Drain(ctx)
	}
	return err
}

// resource is an object of the caller's that uses the engine of a communicator, such as a Fusion or a MoE. Its close is
// called once, with Comm.mu held.
type resource interface{ close() error }

// own makes Close close r. The caller holds mu.
func (c *Comm) own(r resource) { c.resources = append(c.resources, r) }

// disown closes r, unless it is closed already.
func (c *Comm) disown(r resource) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.resources, r)
	if i < 0 {
		return nil
	}
	c.resources = slices.Delete(c.resources, i, i+1)
	return r.close()
}

// closeResources closes all. The caller holds mu.
func (c *Comm) closeResources() (err error) {
	for _, r := range c.resources {
		err = errors.Join(err, r.close())
	}
	c.resources = nil
	return err
}
