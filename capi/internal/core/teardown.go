package core

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/job/bootstrap"
)

// Limits on how long a rank that leaves waits until the others are at the same point. Until then its memory stays,
// because their last kernels may still read it.
const (
	leaveWait    = 2 * time.Second       // in Destroy; goccl.Comm.Close goes on in the background
	abortWait    = 80 * time.Millisecond // in Abort
	drainTimeout = 10 * time.Minute      // for enqueued work, or the communicator's OpTimeout if that is longer
)

// leaving counts the communicators of each job that are being freed in the background.
var leaving sync.Map // job → *sync.WaitGroup

// finish waits for this rank's enqueued work and notifies the peers. Afterwards this process may end at any time.
// Splits and shrinks that were begun before end first: they still use this communicator to talk to the peers.
func (c *comm) finish(ctx context.Context, inner *goccl.Comm, before *task) error {
	ctx, cancel := context.WithTimeout(ctx, max(drainTimeout, c.cfg.OpTimeout))
	defer cancel()
	_ = before.wait(ctx)
	if err := inner.Finalize(ctx); err != nil {
		return err
	}
	if c.boot != nil {
		bootstrap.Leave(c.boot)
	}
	c.finished.Store(true)
	return nil
}

// CommFinalize waits for the work of o, in the background when calls do not block. No collective may follow.
func CommFinalize(o Open) error {
	c, inner := o.c, o.inner
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

// CommDestroy frees h. It waits for this rank's work. The last rank of the communicator in this process also waits for
// the others, for a limited time.
//
//  1. The handle is removed: no new work.
//  2. Enqueued work ends, and the peers are notified. While a split or shrink is still waiting for peers, they are
//     notified in the background, after it.
//  3. In the background: no peer reads this rank's memory any more, and everything is freed.
func CommDestroy(h Handle) error {
	c, err := comms.get(h)
	if err != nil {
		return err
	}
	inner := c.inner.Load()
	if inner == nil {
		return CommAbort(h)
	}
	if !comms.remove(h) {
		return nil
	}
	// a failure of work was already reported; a communicator that has failed is freed as well
	finish := func() { _ = c.finish(context.Background(), inner, c.last.Load()) }
	if c.last.Load().pending() == nil {
		finish()
		finish = func() {}
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), max(drainTimeout, c.cfg.OpTimeout))
		_ = inner.Drain(ctx)
		cancel()
	}
	c.awaitFree(c.free(inner, finish), leaveWait)
	return nil
}

func CommAbort(h Handle) error {
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
	c.awaitFree(c.free(inner, func() {}), abortWait)
	return nil
}

func CommRevoke(r Ready) error {
	r.c.state.Store(stateRevoked)
	r.inner.Revoke()
	return nil
}

// free frees a communicator whose handle was removed, in the background, after end.
func (c *comm) free(inner *goccl.Comm, end func()) (freed chan struct{}) {
	freed = make(chan struct{})
	v, _ := leaving.LoadOrStore(c.job, new(sync.WaitGroup))
	all := v.(*sync.WaitGroup)
	all.Add(1)
	go func() {
		defer close(freed)
		defer all.Done()
		end()
		if inner == nil {
			<-c.setup.done // a set-up that was cancelled frees its own resources
			if inner = c.inner.Load(); inner == nil {
				return
			}
		}
		_ = inner.Close()
		c.forgetOwned()
		if c.boot != nil {
			_ = c.boot.Close()
		}
	}()
	return freed
}

// awaitFree waits until all communicators of the job are freed, at most limit. Only the last rank of the job in this
// process waits.
func (c *comm) awaitFree(freed chan struct{}, limit time.Duration) {
	if !local.leave(c.job) {
		return
	}
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
	case <-time.After(limit):
	}
}

// local counts the ranks of each job in this process. Only the last of them waits for the peers in Destroy: one thread
// may destroy the others one after another.
var local = population{count: map[string]int{}}

type population struct {
	mu    sync.Mutex
	count map[string]int
	named uint64 // jobs that nextJob has named
}

func (p *population) enter(job string) {
	p.mu.Lock()
	p.count[job]++
	p.mu.Unlock()
}

// leave reports whether the job has no more ranks in this process.
func (p *population) leave(job string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[job]--
	if p.count[job] > 0 {
		return false
	}
	delete(p.count, job)
	return true
}

// nextJob returns a job name that is unique in this process.
func nextJob() string {
	local.mu.Lock()
	defer local.mu.Unlock()
	local.named++
	return "local " + strconv.FormatUint(local.named, 10)
}
