package nvlink

import (
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/cuda"
)

// Lamport is the one-shot all-reduce by packets without flags, one_shot_lamport. Package engine/fused has it, and its
// memory. It is for one goroutine at a time.
type Lamport interface {
	// Takes reports whether it can run r, an all-reduce, in that many blocks. The answer is the same on all ranks.
	Takes(r *collective.Request, blocks int64) bool
	// MostBytes is the largest size that it takes.
	MostBytes() int64
	// Launch enqueues r, which it takes, in at most that many blocks of at most that many threads.
	Launch(r *collective.Request, s *cuda.Stream, threads int, blocks int64) error
}

// lamportForced is the largest size for which GOCCL_ALGO chooses one_shot_lamport; above, the table chooses.
const lamportForced = 2 << 20

// WantsLamport reports whether the table or GOCCL_ALGO chooses one_shot_lamport. It is the same on all ranks. The owner
// then makes it, and gives it to SetLamport before the first request.
func (e *Engine) WantsLamport() bool { return e.size > 1 && e.table.chooses(lamport) }

// SetLamport makes one_shot_lamport available: all ranks do this at the same place.
func (e *Engine) SetLamport(l Lamport) { e.lamport = l }

// without returns v, or, if v is one_shot_lamport and that cannot run r, what runs instead.
func (e *Engine) without(v variant, r *collective.Request) variant {
	if v.protocol != lamport || e.lamport != nil && e.lamport.Takes(r, e.call.most) {
		return v
	}
	v.protocol = ll128
	if e.table.noLL128 {
		v.protocol = ll
	}
	return v
}

// launchLamport runs a request that it takes.
func (e *Engine) launchLamport(r *collective.Request, s *cuda.Stream, v variant) error {
	if e.lamport == nil {
		return fmt.Errorf("%w: %s was not set up", collective.ErrUnsupported, LamportName)
	}
	return e.lamport.Launch(r, s, v.threads, e.call.most)
}

// Submit launches a kernel of another package for the request being enqueued, as LaunchForeign does.
func (e *Engine) Submit(s *cuda.Stream, f *cuda.Function, blocks, threads int, params []byte) error {
	return e.submit(s, f, blocks, threads, params)
}
