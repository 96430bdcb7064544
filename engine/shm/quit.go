package shm

import (
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
)

// granted is the memory that peers in other processes may write to in the latest request.
type granted struct {
	at    device.Ptr
	bytes int64
}

// settleFor is how long a failed request waits for peers in other processes to stop moving. A running peer stops within
// microseconds. A blamed peer is probably dead or stopped, so its wait is shorter.
const (
	settleFor       = 50 * time.Millisecond
	settleForBlamed = 2 * time.Millisecond
)

// quit ends this rank's part after a request has failed with err, and returns the error to report. When it returns, no
// peer can write to the request's buffers any more (direct.go), unless the error reports a failed Revoke. The caller
// holds run.
func (e *Engine) quit(err error) error {
	e.failed.Set(err)
	if e.onFailure != nil {
		defer e.onFailure(err)
	}
	e.end.Lock()
	if !e.closed {
		e.leave(err)
	}
	e.end.Unlock()
	for r, a := range e.arenas {
		for e.mapped.SameProcess[r] && a.moving().Load() != 0 {
			time.Sleep(10 * time.Microsecond) // a mover sees the exit status after checkEvery bytes
		}
	}
	mover := e.settle(err)
	if mover < 0 || e.granted.bytes == 0 {
		return err
	}
	g := e.granted
	e.granted = granted{}
	if revoked := e.dev.Revoke(g.at, g.bytes); revoked != nil {
		return errors.Join(err, fmt.Errorf("rank %d may still write to the %d bytes at %#x: "+
			"free them, do not use them again: %w", e.global(mover), g.bytes, uintptr(g.at), revoked))
	}
	return err
}

// settle waits, with a bound, until no peer in another process moves. It returns a peer that apparently still does, or
// -1.
func (e *Engine) settle(err error) int {
	blamed := -1
	if ae := fault.Of(err); ae != nil {
		blamed = e.rankOf(ae.Peer)
	}
	for begun := time.Now(); ; time.Sleep(100 * time.Microsecond) {
		mover, limit := -1, settleForBlamed
		for r, a := range e.arenas {
			if r == e.rank || e.mapped.SameProcess[r] || a.moving().Load() == 0 {
				continue
			}
			if mover = r; r != blamed {
				limit = settleFor
			}
		}
		if mover < 0 || time.Since(begun) > limit {
			return mover
		}
	}
}
