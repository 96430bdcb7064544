package membership

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// Engine is what membership knows of the engine of a communicator: see collective.Engine.
type Engine interface {
	Abort(cause error)
	Err() error
	SeesAborts() bool
	Unfinished() bool
}

// Status records the first cause of a communicator's end. It exists before the engine, so that a death also ends
// set-up.
type Status struct {
	ctx    context.Context // done when the communicator has failed, was aborted or is closed
	cancel context.CancelFunc
	work   context.Context // done when ctx is done or the communicator was revoked
	revoke context.CancelCauseFunc

	mu           sync.Mutex
	cause        error
	peersIgnored bool
	engine       Engine
	beside       []func() error // the functions that AlsoAsk has added
}

// begin initializes s. It must be called first.
func (s *Status) begin() {
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.work, s.revoke = context.WithCancelCause(s.ctx)
}

// Context ends when the communicator has failed, was aborted or is closed.
func (s *Status) Context() context.Context { return s.ctx }

// Revoke ends the work of the communicator, and nothing else.
func (s *Status) Revoke(cause error) { s.revoke(cause) }

// OnEnd arranges that abort is called with the cause when the work of the communicator ends.
func (s *Status) OnEnd(abort func(error)) {
	context.AfterFunc(s.work, func() {
		if cause := s.detail(); cause != nil {
			abort(cause)
			return
		}
		abort(context.Cause(s.work))
	})
}

// End records the cause and aborts the engine. Only the first cause counts.
func (s *Status) End(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return
	}
	s.cause = cause
	s.cancel()
	if s.engine != nil {
		s.engine.Abort(cause)
	}
}

// EndByPeer is End for a cause at a peer. It has no effect after Finalize.
func (s *Status) EndByPeer(cause error) {
	s.mu.Lock()
	peersIgnored := s.peersIgnored
	s.mu.Unlock()
	if !peersIgnored {
		s.End(cause)
	}
}

// IgnorePeers makes EndByPeer ineffective. Finalize calls it after this rank's work has ended.
func (s *Status) IgnorePeers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peersIgnored = true
}

// Err returns the cause, nil if the communicator has not ended.
func (s *Status) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// detail returns the cause, or the engine's, which has more detail; nil if the communicator has not ended.
func (s *Status) detail() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil || s.engine == nil {
		return s.cause
	}
	return s.engine.Err()
}

// SetEngine registers the engine: s aborts it on a cause, at once if there is one already.
func (s *Status) SetEngine(e Engine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine = e
	if s.cause != nil {
		e.Abort(s.cause)
	}
}

// AlsoAsk adds an Err of something beside the engine whose kernels report failures for themselves.
func (s *Status) AlsoAsk(failed func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beside = append(slices.Clone(s.beside), failed)
}

// Ask returns a failure of what AlsoAsk added, or nil. It asks without mu, because a failure ends the communicator.
func (s *Status) Ask() error {
	s.mu.Lock()
	beside := s.beside
	s.mu.Unlock()
	for _, failed := range beside {
		if err := failed(); err != nil {
			return err
		}
	}
	return nil
}

// Failure returns the first error of the communicator, or nil. Once a stream has ended, it knows of every failed
// operation in it.
func (s *Status) Failure() error {
	s.mu.Lock()
	engine := s.engine
	s.mu.Unlock()
	if err := engine.Err(); err != nil {
		return err
	}
	if err := s.Ask(); err != nil {
		return cmp.Or(engine.Err(), err)
	}
	return nil
}

// Bound derives a context from ctx that also ends with the communicator.
func (s *Status) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
