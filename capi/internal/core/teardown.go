package core

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/bootstrap"
)

// How long a rank that leaves waits for the others to have come as far. Until then its memory stays, because their last kernels may still read it.
const (
	leaveWait    = 2 * time.Second       // in Destroy; goccl.Comm.Close goes on in the background
	abortWait    = 80 * time.Millisecond // in Abort
	drainTimeout = 10 * time.Minute      // of enqueued work, when the communicator has no timeout of its own
)

// leaving counts the communicators of each job that are being freed in the background.
var leaving sync.Map // job → *sync.WaitGroup

// finish waits for this rank's enqueued work and says goodbye to the peers. Afterwards this process may end in its own time. A Split or Shrink that
// was begun before ends first: it still talks to the peers over this communicator.
func (c *comm) finish(ctx context.Context, inner *goccl.Comm, before *task) error {
	ctx, cancel := context.WithTimeout(ctx, max(drainTimeout, c.cfg.OpTimeout))
	defer cancel()
	if before != nil {
		select {
		case <-before.done:
		case <-ctx.Done():
		}
	}
	if err := inner.Finalize(ctx); err != nil {
		return err
	}
	if c.boot != nil {
		bootstrap.Leave(c.boot)
	}
	c.finished.Store(true)
	return nil
}

// Finalize ends the use of h: its work is waited for, in the background when calls do not block, and no collective may follow.
func Finalize(h Handle) error {
	c, inner, err := open(h)
	if err != nil {
		return err
	}
	if !c.state.CompareAndSwap(stateOpen, stateFinalized) {
		return fmt.Errorf("%w: the communicator was revoked", ErrInvalidUsage)
	}
	before := c.last.Load()
	if !c.cfg.NonBlocking {
		return c.finish(context.Background(), inner, before)
	}
	c.last.Store(start(func(ctx context.Context) error { return c.finish(ctx, inner, before) }))
	return errInProgress
}

// Destroy frees h. It waits for this rank's work, and, as the last rank of its communicator in this process, a moment for the others.
//
//  1. The handle is gone: no new work.
//  2. Enqueued work ends, and the peers are told.
//  3. In the background: nobody reads this rank's memory any more, and everything is freed.
func Destroy(h Handle) error {
	c, err := comms.get(h)
	if err != nil {
		return err
	}
	inner := c.inner.Load()
	if inner == nil {
		return Abort(h)
	}
	if !comms.remove(h) {
		return nil
	}
	_ = c.finish(context.Background(), inner, c.last.Load()) // the failure of work is told where the work was; a communicator that has failed is freed as well
	c.awaitFree(c.free(inner), leaveWait)
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
	c.awaitFree(c.free(inner), abortWait)
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
func (c *comm) free(inner *goccl.Comm) (freed chan struct{}) {
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
