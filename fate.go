package goccl

import (
	"context"
	"sync"

	"github.com/goccl/goccl/algorithm"
)

// fate records the first cause of a communicator's end. It exists before the engine, so that a death also ends set-up.
type fate struct {
	ctx    context.Context // done when the communicator has failed, was aborted or is closed
	cancel context.CancelFunc
	work   context.Context // done when ctx is done or the communicator was revoked
	revoke context.CancelCauseFunc

	mu     sync.Mutex
	cause  error
	immune bool
	engine algorithm.Engine
}

// begin initializes f. It must be called first.
func (f *fate) begin() {
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.work, f.revoke = context.WithCancelCause(f.ctx)
}

// ends arranges that abort is called with the cause when the work of the communicator ends.
func (f *fate) ends(abort func(error)) {
	context.AfterFunc(f.work, func() {
		if cause := f.err(); cause != nil {
			abort(cause)
			return
		}
		abort(context.Cause(f.work))
	})
}

// end records the cause and aborts the engine. Only the first cause counts.
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

// suffer is end for a cause at a peer. It has no effect after Finalize.
func (f *fate) suffer(cause error) {
	f.mu.Lock()
	immune := f.immune
	f.mu.Unlock()
	if !immune {
		f.end(cause)
	}
}

// immunize makes suffer ineffective. Finalize calls it after this rank's work has ended.
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

// adopt registers the engine: f aborts it on a cause, at once if there is one already.
func (f *fate) adopt(e algorithm.Engine) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.engine = e
	if f.cause != nil {
		e.Abort(f.cause)
	}
}

// bound derives a context from ctx that also ends with the communicator.
func (f *fate) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(f.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
