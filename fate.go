package goccl

import (
	"context"
	"sync"

	"github.com/goccl/goccl/algorithm"
)

// fate is the first cause of a communicator's end. It is there before the engine, so that a death ends set-up too.
type fate struct {
	ctx    context.Context // done when the communicator has failed, was aborted or is closed
	cancel context.CancelFunc
	work   context.Context // done then, and when it was revoked
	revoke context.CancelCauseFunc

	mu     sync.Mutex
	cause  error
	immune bool
	engine algorithm.Engine
}

// begin comes first.
func (f *fate) begin() {
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.work, f.revoke = context.WithCancelCause(f.ctx)
}

// ends hands abort the cause when the work of the communicator ends.
func (f *fate) ends(abort func(error)) {
	context.AfterFunc(f.work, func() {
		if cause := f.err(); cause != nil {
			abort(cause)
			return
		}
		abort(context.Cause(f.work))
	})
}

// end notes the cause and tells the engine. Only the first cause counts.
func (f *fate) end(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cause != nil {
		return
	}
	f.cause = cause
	f.cancel()
	if f.engine != nil {
		f.engine.Abort(cause)
	}
}

// suffer is end for what a peer has done: it is nothing to a communicator that was finalized.
func (f *fate) suffer(cause error) {
	f.mu.Lock()
	immune := f.immune
	f.mu.Unlock()
	if !immune {
		f.end(cause)
	}
}

// immunize comes with the end of this rank's work.
func (f *fate) immunize() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.immune = true
}

func (f *fate) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cause
}

// adopt hands the engine what happened before it was there, and from then on what happens.
func (f *fate) adopt(e algorithm.Engine) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.engine = e
	if f.cause != nil {
		e.Abort(f.cause)
	}
}

// bound is ctx until the communicator's end.
func (f *fate) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(f.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
