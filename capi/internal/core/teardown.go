package core

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
)

// How long a rank that leaves waits for the others to have come as far. Until then its memory stays, because their last kernels may still
// read it; after that it says goodbye in any case.
const (
	leaveTimeout = 30 * time.Second      // in the background
	leaveWait    = 2 * time.Second       // in Destroy
	abortWait    = 80 * time.Millisecond // in Abort
	drainTimeout = 10 * time.Minute      // of enqueued work, when the communicator has no timeout of its own
)

// leaving counts the communicators of each job that are being freed in the background.
var leaving sync.Map // job → *sync.WaitGroup

// drain waits for this rank's enqueued work.
func (c *comm) drain(inner *goccl.Comm) error {
	ctx, cancel := context.WithTimeout(context.Background(), max(drainTimeout, c.cfg.OpTimeout))
	defer cancel()
	if c.dev.device.ID().Kind == device.Host {
		for _, s := range c.ownStreams() {
			if err := s.Synchronize(ctx); err != nil {
				return err
			}
		}
	}
	return inner.Drain(ctx)
}

// Finalize ends the use of h: its work is waited for, and no collective may follow.
func Finalize(h Handle) error {
	c, inner, err := open(h)
	if err != nil {
		return err
	}
	if !c.state.CompareAndSwap(stateOpen, stateFinalized) {
		return fmt.Errorf("%w: the communicator was revoked", ErrInvalidUsage)
	}
	return c.drain(inner)
}

// Destroy frees h. It waits for this rank's work, and, as the last rank of its communicator in this process, a moment for the others.
//
//  1. The handle is gone: no new work.
//  2. Enqueued work ends.
//  3. In the background: all ranks meet, so that nobody still reads this rank's memory; then everything is freed.
//
// A failed communicator skips 2 and the meeting.
func Destroy(h Handle) error {
	c, err := comms.get(h)
	if err != nil {
		return err
	}
	if c.inner.Load() == nil {
		return Abort(h)
	}
	if !comms.remove(h) {
		return nil
	}
	inner := c.inner.Load()
	failed := inner.AsyncError() != nil || c.state.Load() == stateRevoked
	if !failed {
		failed = c.drain(inner) != nil
	}
	freed := c.free(inner, !failed)
	c.awaitFree(freed, leaveWait)
	return nil
}

// Abort frees h without waiting for its work or its set-up.
func Abort(h Handle) error {
	c, err := comms.get(h)
	if err != nil {
		return err
	}
	if !comms.remove(h) {
		return nil
	}
	c.setup.cancel(errCalledOff)
	inner := c.inner.Load()
	if inner != nil {
		inner.Abort(nil)
	}
	c.awaitFree(c.free(inner, false), abortWait)
	return nil
}

// Revoke ends the work of h; it can still be split, shrunk and destroyed.
func Revoke(h Handle) error {
	c, err := comms.get(h)
	if err != nil {
		return err
	}
	inner, err := c.ready()
	if err != nil {
		return err
	}
	c.state.Store(stateRevoked)
	inner.Revoke()
	return nil
}

// free frees a communicator whose handle is gone, in the background.
func (c *comm) free(inner *goccl.Comm, meet bool) (freed chan struct{}) {
	freed = make(chan struct{})
	v, _ := leaving.LoadOrStore(c.job, new(sync.WaitGroup))
	all := v.(*sync.WaitGroup)
	all.Add(1)
	go func() {
		defer close(freed)
		defer all.Done()
		if inner == nil {
			<-c.setup.done // set-up that was called off cleans up after itself
			if inner = c.inner.Load(); inner == nil {
				return
			}
		}
		if meet {
			ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
			_ = inner.Finalize(ctx) // who has died or left needs nothing of us
			cancel()
		}
		_ = inner.Close()
		c.forgetWindows()
		if c.boot != nil {
			_ = c.boot.Close()
		}
	}()
	return freed
}

// awaitFree waits for what is being freed: this communicator, and, as the last of its job here, all of them.
func (c *comm) awaitFree(freed chan struct{}, limit time.Duration) {
	if !local.leave(c.job) {
		return
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	v, _ := leaving.LoadAndDelete(c.job)
	done := make(chan struct{})
	go func() {
		if v != nil {
			v.(*sync.WaitGroup).Wait()
		}
		<-freed
		close(done)
	}()
	select {
	case <-done:
	case <-t.C:
	}
}
