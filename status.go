package goccl

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
)

// status records the first cause of a communicator's end. It exists before the engine, so that a death also ends
// set-up.
type status struct {
	ctx    context.Context // done when the communicator has failed, was aborted or is closed
	cancel context.CancelFunc
	work   context.Context // done when ctx is done or the communicator was revoked
	revoke context.CancelCauseFunc

	mu           sync.Mutex
	cause        error
	peersIgnored bool
	engine       collective.Engine
	beside       []func() error // of what has kernels of its own, see ask
}

// begin initializes s. It must be called first.
func (s *status) begin() {
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.work, s.revoke = context.WithCancelCause(s.ctx)
}

// onEnd arranges that abort is called with the cause when the work of the communicator ends.
func (s *status) onEnd(abort func(error)) {
	context.AfterFunc(s.work, func() {
		if cause := s.err(); cause != nil {
			abort(cause)
			return
		}
		abort(context.Cause(s.work))
	})
}

// end records the cause and aborts the engine. Only the first cause counts.
func (s *status) end(cause error) {
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

// endByPeer is end for a cause at a peer. It has no effect after Finalize.
func (s *status) endByPeer(cause error) {
	s.mu.Lock()
	peersIgnored := s.peersIgnored
	s.mu.Unlock()
	if !peersIgnored {
		s.end(cause)
	}
}

// ignorePeers makes endByPeer ineffective. Finalize calls it after this rank's work has ended.
func (s *status) ignorePeers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peersIgnored = true
}

func (s *status) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// setEngine registers the engine: s aborts it on a cause, at once if there is one already.
func (s *status) setEngine(e collective.Engine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine = e
	if s.cause != nil {
		e.Abort(s.cause)
	}
}

// alsoAsk adds an Err of something beside the engine whose kernels report failures for themselves.
func (s *status) alsoAsk(failed func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beside = append(slices.Clone(s.beside), failed)
}

// ask returns a failure of what alsoAsk added, or nil. It asks without mu, because a failure ends the communicator.
func (s *status) ask() error {
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

// bound derives a context from ctx that also ends with the communicator.
func (s *status) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// AsyncError returns the first error of the communicator, or nil. After an error only Abort, Shrink and Close are
// useful. Once a stream has ended, AsyncError knows of every failed operation in it.
func (c *Comm) AsyncError() error {
	if err := c.engine.Err(); err != nil {
		return err
	}
	if c.closed.Load() {
		return nil
	}
	if err := c.status.ask(); err != nil {
		return cmp.Or(c.engine.Err(), err)
	}
	return nil
}

// watchPeers turns the death of a rank, or a set-up that a rank has given up, into an abort that names the rank to blame.
func (c *Comm) watchPeers(failures <-chan bootstrap.PeerFailure) {
	for f := range failures {
		e := &Error{Comm: c.cfg.Name, Op: "communicator", Rank: c.rank, Peer: f.Rank, Err: collective.Kind(f.Err)}
		if errors.Is(e, ErrPeerDead) {
			e.Verdict = c.dead(f.Rank)
		}
		c.status.endByPeer(e)
	}
}

// blameDelay is how long a set-up error that a peer's death may have caused waits for the report of that death.
const blameDelay = 200 * time.Millisecond

// blame converts err, the error of a failed set-up, to an error in which rank r is called ranks[r]. If a rank has died
// or given up, that is the cause and is returned instead of err, which is only its consequence. A deadline that names no
// rank is blamed on a rank of this host that is stopped.
func (c *Comm) blame(op string, err error, ranks []int) error {
	renamed := func(e *Error, kind error) error {
		peer := e.Peer
		if peer >= 0 && peer < len(ranks) {
			peer = ranks[peer]
		}
		return &Error{Op: op, Rank: ranks[c.rank], Peer: peer, Err: kind}
	}
	own := func() error {
		var ae *Error
		if errors.As(err, &ae) {
			return renamed(ae, ae.Err)
		}
		return wrap(c.cfg.Name, op, ranks[c.rank], err)
	}
	mine := own()
	for _, kind := range []error{ErrUnsupported, ErrInvalidArgument, ErrMismatch, bootstrap.ErrProtocol,
		device.ErrOutOfMemory, ErrTimeout} {
		if errors.Is(mine, kind) && (kind != ErrTimeout || blamed(mine) >= 0) {
			return mine
		}
	}
	select {
	case <-c.status.ctx.Done():
	case <-time.After(blameDelay):
	}
	var e *Error
	if errors.As(c.status.err(), &e) {
		return renamed(e, e.Err)
	}
	if e = c.stopped(); errors.Is(mine, ErrTimeout) && e != nil {
		return renamed(e, e.Err)
	}
	return mine
}
