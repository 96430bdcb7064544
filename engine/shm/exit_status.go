package shm

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/collective/fault"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
)

// exitStatus is the record in a rank's arena of why it left. Peers that wait for the rank read it, fail at once and
// blame the right rank. The owner writes it once: first the other fields, then code.
type exitStatus struct {
	code       atomic.Uint32
	peer       int32 // the rank that the owner blames, by its number in errors, -1: none
	seq        uint64
	collective uint32
	_          uint32
}

const (
	exitClosed = 1 + iota
	exitAborted
	exitPeerDead
	exitTimeout
	exitMismatch
	exitFault // in a buffer of the rank whom the owner blames
)

// errFault is the error of a request that met memory of a peer which is not mapped.
var errFault = fmt.Errorf("%w: a memory fault", collective.ErrAborted)

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

func exitOf(err error) uint32 {
	switch {
	case errors.Is(err, collective.ErrClosed):
		return exitClosed
	case errors.Is(err, collective.ErrPeerDead):
		return exitPeerDead
	case errors.Is(err, collective.ErrTimeout):
		return exitTimeout
	case errors.Is(err, collective.ErrMismatch):
		return exitMismatch
	case errors.Is(err, errFault):
		return exitFault
	}
	return exitAborted
}

// leave writes this rank's exit status and wakes all waiting ranks. The caller holds end.
func (e *Engine) leave(cause error) {
	f := e.arenas[e.rank].exitStatus()
	if f.code.Load() != 0 {
		return
	}
	f.peer = -1
	if ae := fault.Of(cause); ae != nil {
		f.peer, f.seq = int32(ae.Peer), ae.Seq
		if c, err := collective.ParseCollective(ae.Op); err == nil {
			f.collective = uint32(c)
		}
	}
	f.code.Store(exitOf(cause))
	e.meeting.left.Add(1)
	e.meeting.arrived.Wake()
	for _, a := range e.arenas {
		a.door().Wake()
	}
}

// first returns cause or, if cause is the exit of a rank that had left because of another rank, the error behind it: a
// rank that exits after a failure is not to blame for it.
func (e *Engine) first(cause error) error {
	for range e.size {
		ae := fault.Of(cause)
		if ae == nil || !errors.Is(cause, collective.ErrPeerDead) || e.rankOf(ae.Peer) < 0 {
			return cause
		}
		f := e.arenas[e.rankOf(ae.Peer)].exitStatus()
		code, blamed := f.code.Load(), int(f.peer)
		if code != exitPeerDead && code != exitTimeout || blamed < 0 || blamed == e.global(e.rank) || blamed == ae.Peer {
			return cause
		}
		kind := collective.ErrPeerDead
		if code == exitTimeout {
			kind = collective.ErrTimeout
		}
		cause = &collective.Error{Comm: e.name, Op: ae.Op, Rank: ae.Rank, Peer: blamed,
			Err: fmt.Errorf("%w: rank %d reported it before it ended", kind, ae.Peer)}
	}
	return cause
}

// gone reports whether peer has left.
func (e *Engine) gone(peer int) bool { return e.arenas[peer].exitStatus().code.Load() != 0 }

// anyGone returns a rank that may prevent the current phase from completing, or -1. A rank that published the phase and
// then closed does not.
func (e *Engine) anyGone() int {
	for r, a := range e.arenas {
		code := a.exitStatus().code.Load()
		if code != 0 && r != e.rank && (code != exitClosed || a.phase().Load() < e.phase) {
			return r
		}
	}
	return -1
}

// abandoned reports whether peer, which has published the phase, gave up this request because of a timeout. A late rank
// then fails even if the published data would suffice.
func (o *op) abandoned(peer int) bool {
	f := o.e.arenas[peer].exitStatus()
	return f.code.Load() == exitTimeout && f.seq == o.seq && collective.Collective(f.collective) == o.req.Called()
}

// left returns the error of a request that cannot complete because peer has left. It blames the rank that peer blames,
// unless that is this rank or peer itself.
func (o *op) left(peer int) error {
	if o.e.aborted.Err() != nil { // peers leave because of this rank's abort, and may be seen first
		return o.fail(peer, wait.ErrAborted)
	}
	f := o.e.arenas[peer].exitStatus()
	code, blamed, what := f.code.Load(), int(f.peer), ""
	if f.seq != 0 {
		what = fmt.Sprintf(" in its %v #%d", collective.Collective(f.collective), f.seq)
	}
	me, them := o.e.global(o.e.rank), o.e.global(peer)
	if blamed < 0 || blamed == me {
		blamed = them
	}
	accused := blamed == them && int(f.peer) == me
	switch {
	case code == exitClosed:
		return o.named(them, fmt.Errorf("%w: rank %d has closed its communicator", collective.ErrAborted, them))
	case code == exitPeerDead && !accused:
		return o.named(blamed, fmt.Errorf("%w: rank %d saw it", collective.ErrPeerDead, them))
	case code == exitPeerDead:
		return o.named(them, fmt.Errorf("%w: rank %d has given this rank up as dead", collective.ErrAborted, them))
	case code == exitTimeout && accused:
		return o.named(them, fmt.Errorf("%w: rank %d waited for this rank%s and has given up",
			collective.ErrTimeout, them, what))
	case code == exitTimeout:
		return o.named(blamed, fmt.Errorf("%w: rank %d waited for rank %d%s and has given up",
			collective.ErrTimeout, them, blamed, what))
	case code == exitMismatch:
		return o.named(blamed, fmt.Errorf("%w: rank %d has found that%s", collective.ErrMismatch, them, what))
	case code == exitFault && accused:
		return o.named(-1, fmt.Errorf("%w: rank %d cannot reach this rank's buffers%s: one is not mapped: "+
			"it is shorter than its count says, or freed", collective.ErrAborted, them, what))
	case code == exitFault:
		return o.named(blamed, fmt.Errorf("%w in a buffer of rank %d: rank %d met it%s", errFault, blamed, them, what))
	}
	if blamed != them {
		return o.named(blamed, fmt.Errorf("%w: rank %d has given up%s because of rank %d",
			collective.ErrAborted, them, what, blamed))
	}
	return o.named(them, fmt.Errorf("%w: rank %d has aborted%s", collective.ErrAborted, them, what))
}
