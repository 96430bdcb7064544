package goccl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// Abort ends all running and later work of this rank with cause (nil: a plain abort). It does not wait for the work. It
// may be called from any goroutine, also while another goroutine is inside a call. Peers that wait for this rank, now
// or later, get an error that names it, and so do peers in Split or Grow.
func (c *Comm) Abort(cause error) {
	c.abort(cause)
	c.group.Aborted()
}

func (c *Comm) abort(cause error) {
	if cause == nil {
		cause = c.group.Fault("communicator", -1, ErrAborted)
	}
	tell, cut := c.notices.Leaving(c.AsyncError())
	c.status.End(cause)
	c.endDetached(cause)
	c.notices.Accuse(cause)
	if tell {
		c.notices.Send(fault.ExitAborted, cut || c.extended.Load())
		c.notices.Follow()
	}
}

// failAlone ends the communicator for a failure that the peers cannot detect. Their own work may have ended well, but
// they must not wait for later work of this rank.
func (c *Comm) failAlone(cause error) {
	c.status.End(cause)
	c.notices.Accuse(cause)
	c.notices.Send(fault.ExitAborted, true)
}

// Close frees the communicator. It aborts work that still runs. After Finalize it first waits, at most Config.Timeout,
// until no peer accesses memory of this rank any more. Closing twice is harmless.
func (c *Comm) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.awaitPeers()
	if c.leaveRAS != nil {
		c.leaveRAS()
	}
	c.watchdog.Close()
	tell, cut := false, false
	if c.engine != nil {
		tell, cut = c.notices.Leaving(c.AsyncError())
	}
	aborted := c.status.Err() != nil
	// The abort unblocks calls that hold mu while they wait inside the engine or for a peer's call.
	end := c.group.Fault("communicator", -1, fmt.Errorf("%w: %w", ErrAborted, ErrClosed))
	c.status.End(end)
	c.endDetached(end)
	if tell {
		c.notices.Send(fault.ExitClosed, cut)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if c.registered != nil {
		err = c.registered.close()
	}
	if !c.endSignals() {
		aborted = true
	}
	stopped := true
	if c.engine != nil {
		e := c.engine.Close()
		err, stopped = errors.Join(err, e), e == nil
	}
	if stopped { // else a kernel may still use them
		err = errors.Join(err, c.closeResources())
	}
	if aborted {
		c.flats.Halt()
	} else {
		err = errors.Join(err, c.flats.Close())
		if c.signals != nil {
			err = errors.Join(err, c.signals.Close())
		}
	}
	c.notices.Close()
	err = errors.Join(err, c.boot.Close()) // stops what receives from peers
	if c.owned != nil {
		err = errors.Join(err, c.owned.Close())
	}
	c.watchdog.Wait()
	c.group.Wait()
	c.record.Close(aborted)
	return err
}

// signalsEnd bounds the wait for one-sided operations after an abort. Kernels see the abort within 10 ms.
const signalsEnd = 2 * time.Second

// endSignals waits, after the abort of Close, until no one-sided operation runs. If that fails, it reports false: then
// what kernels may still use must stay.
func (c *Comm) endSignals() bool {
	if c.signals == nil {
		return true
	}
	ctx, stop := context.WithTimeout(context.Background(), signalsEnd)
	defer stop()
	if err := c.signals.Drain(ctx); err == nil {
		return true
	}
	c.AbortWord() // grants the word, so that it is kept
	return false
}

// detached is an object whose operations may run after the end of the communicator, such as a MoE with masked ranks.
type detached interface {
	// end ends its operations with cause.
	end(cause error)
}

// endDetached ends the work that does not end with the communicator.
func (c *Comm) endDetached(cause error) {
	c.detached.Range(func(d, _ any) bool {
		d.(detached).end(cause)
		return true
	})
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
