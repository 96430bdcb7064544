package shm

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
)

// fate is the record in a rank's window of why it left. Peers that wait for the rank read it, fail at once and blame
// the right rank. The owner writes it once: first the other fields, then code.
type fate struct {
	code       atomic.Uint32
	peer       int32 // the rank that the owner blames, -1: none
	seq        uint64
	collective uint32
	_          uint32
}

const (
	fateClosed = 1 + iota
	fateAborted
	fatePeerDead
	fateTimeout
	fateMismatch
	fateFault // in a buffer of the rank whom the owner blames
)

// errFault is the error of a request that met memory of a peer which is not mapped.
var errFault = fmt.Errorf("%w: a memory fault", algorithm.ErrAborted)

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

func fateOf(err error) uint32 {
	switch {
	case errors.Is(err, algorithm.ErrClosed):
		return fateClosed
	case errors.Is(err, algorithm.ErrPeerDead):
		return fatePeerDead
	case errors.Is(err, algorithm.ErrTimeout):
		return fateTimeout
	case errors.Is(err, algorithm.ErrMismatch):
		return fateMismatch
	case errors.Is(err, errFault):
		return fateFault
	}
	return fateAborted
}

// leave writes this rank's fate and wakes all waiting ranks. The caller holds end.
func (e *Engine) leave(cause error) {
	f := e.windows[e.rank].fate()
	if f.code.Load() != 0 {
		return
	}
	f.peer = -1
	var ae *algorithm.Error
	if errors.As(cause, &ae) {
		f.peer, f.seq = int32(ae.Peer), ae.Seq
		if c, err := algorithm.ParseCollective(ae.Op); err == nil {
			f.collective = uint32(c)
		}
	}
	f.code.Store(fateOf(cause))
	e.meeting.left.Add(1)
	e.meeting.arrived.Wake()
	for _, w := range e.windows {
		w.door().Wake()
	}
}

// first returns cause or, if cause is the exit of a rank that had left because of another rank, the error behind it: a
// rank that exits after a failure is not to blame for it.
func (e *Engine) first(cause error) error {
	var ae *algorithm.Error
	for range e.size {
		if !errors.Is(cause, algorithm.ErrPeerDead) || !errors.As(cause, &ae) || ae.Peer < 0 || ae.Peer >= e.size {
			return cause
		}
		f := e.windows[ae.Peer].fate()
		code, blamed := f.code.Load(), int(f.peer)
		if code != fatePeerDead && code != fateTimeout || blamed < 0 || blamed >= e.size ||
			blamed == e.rank || blamed == ae.Peer {
			return cause
		}
		kind := algorithm.ErrPeerDead
		if code == fateTimeout {
			kind = algorithm.ErrTimeout
		}
		cause = &algorithm.Error{Comm: e.name, Op: ae.Op, Rank: ae.Rank, Peer: blamed,
			Err: fmt.Errorf("%w: rank %d said so before it ended", kind, ae.Peer)}
	}
	return cause
}

// gone reports whether peer has left.
func (e *Engine) gone(peer int) bool { return e.windows[peer].fate().code.Load() != 0 }

// anyGone returns a rank that may prevent the current phase from completing, or -1. A rank that published the phase and
// then closed does not.
func (e *Engine) anyGone() int {
	for r, w := range e.windows {
		if code := w.fate().code.Load(); code != 0 && r != e.rank && (code != fateClosed || w.phase().Load() < e.phase) {
			return r
		}
	}
	return -1
}

// abandoned reports whether peer, which has published the phase, gave up this request because of a timeout. A late rank
// then fails even if the published data would suffice.
func (o *op) abandoned(peer int) bool {
	f := o.e.windows[peer].fate()
	return f.code.Load() == fateTimeout && f.seq == o.seq && algorithm.Collective(f.collective) == o.req.Collective
}

// left returns the error of a request that cannot complete because peer has left. It blames the rank that peer blames,
// unless that is this rank or peer itself.
func (o *op) left(peer int) error {
	if o.e.aborted.Load() != nil { // peers leave because of this rank's abort, and may be seen first
		return o.fail(peer, wait.ErrAborted)
	}
	f := o.e.windows[peer].fate()
	code, blamed, what := f.code.Load(), int(f.peer), ""
	if f.seq != 0 {
		what = fmt.Sprintf(" in its %v #%d", algorithm.Collective(f.collective), f.seq)
	}
	if blamed < 0 || blamed >= o.e.size || blamed == o.e.rank {
		blamed = peer
	}
	accused := blamed == peer && int(f.peer) == o.e.rank
	switch {
	case code == fateClosed:
		return o.error(peer, fmt.Errorf("%w: rank %d has closed its communicator", algorithm.ErrAborted, peer))
	case code == fatePeerDead && !accused:
		return o.error(blamed, fmt.Errorf("%w: rank %d saw it", algorithm.ErrPeerDead, peer))
	case code == fatePeerDead:
		return o.error(peer, fmt.Errorf("%w: rank %d has given this rank up as dead", algorithm.ErrAborted, peer))
	case code == fateTimeout && accused:
		return o.error(peer, fmt.Errorf("%w: rank %d waited for this rank%s and has given up",
			algorithm.ErrTimeout, peer, what))
	case code == fateTimeout:
		return o.error(blamed, fmt.Errorf("%w: rank %d waited for rank %d%s and has given up",
			algorithm.ErrTimeout, peer, blamed, what))
	case code == fateMismatch:
		return o.error(blamed, fmt.Errorf("%w: rank %d has found that%s", algorithm.ErrMismatch, peer, what))
	case code == fateFault && accused:
		return o.error(-1, fmt.Errorf("%w: rank %d cannot reach this rank's buffers%s: one is not mapped: "+
			"it is shorter than its count says, or freed", algorithm.ErrAborted, peer, what))
	case code == fateFault:
		return o.error(blamed, fmt.Errorf("%w in a buffer of rank %d: rank %d met it%s", errFault, blamed, peer, what))
	}
	if blamed != peer {
		return o.error(blamed, fmt.Errorf("%w: rank %d has given up%s because of rank %d",
			algorithm.ErrAborted, peer, what, blamed))
	}
	return o.error(peer, fmt.Errorf("%w: rank %d has aborted%s", algorithm.ErrAborted, peer, what))
}
