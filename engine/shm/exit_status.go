package shm

import (
	"fmt"
	"sync/atomic"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/wait"
)

// exitStatus is the record in a rank's arena of why it left. Peers that wait for the rank read it, fail at once and
// blame the right rank. The owner writes it once: first the other fields, then code.
type exitStatus struct {
	code       atomic.Uint32 // a fault.Exit, with ranks by their numbers in errors
	collective uint32
	seq        uint64
}

func (f *exitStatus) exit() fault.Exit { return fault.Exit(f.code.Load()) }

// ownerOf is the peer in whose buffer a request that is done in place met a memory fault, or -1.
func (o *op) ownerOf(panicked any) int {
	fault, ok := panicked.(interface{ Addr() uintptr })
	if !ok || !o.entered {
		return -1
	}
	e := o.e
	for k := range e.size { // this rank first: it may use the same memory
		r := (e.rank + k) % e.size
		send, recv := o.req.Extents(r, e.size)
		if within(fault.Addr(), e.sendAt[r], send) || within(fault.Addr(), e.recvAt[r], recv) {
			if r == e.rank {
				return -1
			}
			return r
		}
	}
	return -1
}

func within(a uintptr, p device.Ptr, n int64) bool {
	return p != 0 && a >= uintptr(p) && int64(a-uintptr(p)) < n
}

// leave writes this rank's exit status and wakes all waiting ranks. The caller holds end.
func (e *Engine) leave(cause error) {
	f := e.arenas[e.rank].exitStatus()
	if f.code.Load() != 0 {
		return
	}
	if ae := fault.Of(cause); ae != nil {
		f.seq = ae.Seq
		if c, err := collective.ParseCollective(ae.Op); err == nil {
			f.collective = uint32(c)
		}
	}
	f.code.Store(uint32(fault.ExitOf(cause)))
	e.meeting.left.Add(1)
	e.meeting.arrived.Wake()
	for _, a := range e.arenas {
		a.door().Wake()
	}
}

// first returns the error behind cause: see fault.First.
func (e *Engine) first(cause error) error {
	return fault.First(cause, e.size, func(rank int) fault.Exit {
		if r := e.rankOf(rank); r >= 0 {
			return e.arenas[r].exitStatus().exit()
		}
		return 0
	})
}

// gone reports whether peer has left.
func (e *Engine) gone(peer int) bool { return e.arenas[peer].exitStatus().code.Load() != 0 }

// anyGone returns a rank that may prevent the current phase from completing, or -1. A rank that published the phase and
// then closed does not.
func (e *Engine) anyGone() int {
	for r, a := range e.arenas {
		exit := a.exitStatus().exit()
		if exit != 0 && r != e.rank && (exit.Reason() != fault.ExitClosed || a.phase().Load() < e.phase) {
			return r
		}
	}
	return -1
}

// abandoned reports whether peer, which has published the phase, gave up this request because of a timeout. A late rank
// then fails even if the published data would suffice.
func (o *op) abandoned(peer int) bool {
	f := o.e.arenas[peer].exitStatus()
	return f.exit().Reason() == fault.ExitTimeout && f.seq == o.seq &&
		collective.Collective(f.collective) == o.req.Called()
}

// left returns the error of a request that cannot complete because peer has left. It blames the rank that peer blames,
// unless that is this rank or peer itself.
func (o *op) left(peer int) error {
	if o.e.aborted.Err() != nil { // peers leave because of this rank's abort, and may be seen first
		return o.fail(peer, wait.ErrAborted)
	}
	f := o.e.arenas[peer].exitStatus()
	exit, in := f.exit(), ""
	if f.seq != 0 {
		in = fmt.Sprintf(" in its %v #%d", collective.Collective(f.collective), f.seq)
	}
	blamed, cause := exit.Told(o.e.global(o.e.rank), o.e.global(peer), in)
	return o.named(blamed, cause)
}
