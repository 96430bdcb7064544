package shm

import (
	"context"
	"fmt"
	"time"

	"github.com/goccl/goccl/collective"
)

// drainPoll is the poll interval of Drain. Drain is called at the end of a communicator, when work is rarely left.
const drainPoll = time.Millisecond

// Drain implements collective.Engine. Like Enqueue it is called by one goroutine at a time.
//
// A counter holds the number of requests that have not ended. Requests that a stream skips because of an earlier error
// stay in the count. They, and work that the engine does not run (Follow), have ended when the latest stream, which
// waits for all earlier ones, is idle.
func (e *Engine) Drain(ctx context.Context) error {
	idle := make(chan struct{})
	if last := e.order; e.jobs.pending.Load() != 0 {
		waiting, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			_ = last.Wait(waiting)
			close(idle)
		}()
	}
	tick := time.Tick(drainPoll)
	for e.jobs.pending.Load() != 0 {
		select {
		case <-tick:
			continue
		case <-idle:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		break
	}
	if err := e.failed.Err(); err != nil {
		return err
	}
	if !e.foreign {
		return nil
	}
	err := e.order.Wait(ctx)
	e.foreign = err != nil
	return err
}

// Leave implements collective.Engine.
func (e *Engine) Leave() {
	e.end.Lock()
	defer e.end.Unlock()
	if !e.closed {
		e.leave(&collective.Error{Comm: e.name, Op: "communicator", Rank: e.global(e.rank), Peer: -1,
			Err: fmt.Errorf("%w: %w", collective.ErrAborted, collective.ErrClosed)})
	}
}
