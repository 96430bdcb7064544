package nvlink

import (
	"errors"
	"fmt"
	"os"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

// copyMode says when copy engines run all-gathers and all-to-alls into windows. The ranks agree on the least that any of them wants.
type copyMode uint8

const (
	copyNever  copyMode = iota // GOCCL_COPY_ENGINE=0
	copyLarge                  // from where they were measured to be no slower than kernels
	copyAlways                 // GOCCL_COPY_ENGINE=1: from copyFrom
)

// The slices from which copy engines run a collective: with copyAlways as soon as they can be worth the two barriers around them, else from where they took no
// longer than kernels (docs/windows.md). One bound for all-gathers in place and not: a rank cannot know whether its peers' are.
const (
	copyFrom          = 1 << 20
	copyAllGatherFrom = 64 << 20
	copyAllToAllFrom  = 32 << 20
)

// wantedCopies is GOCCL_COPY_ENGINE.
func wantedCopies() (copyMode, error) {
	switch v := os.Getenv("GOCCL_COPY_ENGINE"); v {
	case "":
		return copyLarge, nil
	case "0":
		return copyNever, nil
	case "1":
		return copyAlways, nil
	default:
		return 0, fmt.Errorf("%w: GOCCL_COPY_ENGINE=%q: want 0 (never), 1 (from %d bytes a slice), or nothing (large slices)", algorithm.ErrInvalidArgument, v, copyFrom)
	}
}

// from is the smallest slice of a collective for copy engines.
func (m copyMode) from(c algorithm.Collective) int64 {
	switch {
	case m == copyAlways:
		return copyFrom
	case c == algorithm.AllToAll:
		return copyAllToAllFrom
	}
	return copyAllGatherFrom
}

// copyWindow is the window by which the copy engines run an all-gather or an all-to-all, or nil. All ranks decide alike: by the size, by where recv lies,
// which the contract of windows makes the same, and by what they have agreed on.
func (e *Engine) copyWindow(r *algorithm.Request) (*window, error) {
	if e.symmetric == nil || r.Bytes() < e.symmetric.copies.from(r.Collective) || e.table.forced[r.Collective] || r.Collective == algorithm.AllToAll && r.Send == r.Recv {
		return nil, nil
	}
	w := e.symmetric.find(r.Recv, r.Bytes()*int64(e.size))
	if w == nil {
		return nil, nil
	}
	if usable, err := e.symmetric.await(w); !usable || err != nil {
		return nil, err
	}
	return w, nil
}

// copies runs an all-gather (stride 0) or an all-to-all by the copy engines: each rank's write its slices into the peers' parts of a window.
//
//  1. A barrier: every rank's stream has got here, so the outputs may be overwritten. It also puts what follows behind this rank's work on other streams.
//  2. A copy to each peer, to the next rank first: so each port has one sender and one receiver at any time. The own slice, unless it is in place, is copied
//     on a side stream meanwhile: it needs no port. That forks behind 1. and is joined before 3.
//  3. A barrier: each rank's comes after its copies, so once it is passed all are done. Its ticket is the mark for all three.
//
// Copies cannot look at the abort word: after a failure those that were enqueued still run, and windows hold anything.
func (e *Engine) copies(r *algorithm.Request, s *cuda.Stream, stride int64, w *window) error {
	if err := e.barrier(s); err != nil {
		return err
	}
	err := e.copySlices(r, s, stride, w)
	if err == nil {
		err = e.barrierBehindCopies(s)
	}
	if err != nil { // what was enqueued needs a mark of its own
		return errors.Join(err, e.order.Leave(s))
	}
	return nil
}

func (e *Engine) copySlices(r *algorithm.Request, s *cuda.Stream, stride int64, w *window) error {
	side, slot := e.symmetric.side, int64(e.rank)*r.Bytes()
	own, dst := r.Send.Add(int64(e.rank)*stride), r.Recv.Add(slot)
	beside := false
	if own != dst {
		var err error
		if beside, err = side.Fork(s); err != nil {
			return err
		}
	}
	// The first copy comes ahead of what the side costs the host. The side is joined whatever fails, so that s stands for all that was enqueued.
	err := e.copyToPeer(r, s, stride, w, 1)
	if beside {
		err = errors.Join(err, copyBeside(side, dst, own, r.Bytes()))
	}
	for k := 2; k < e.size && err == nil; k++ {
		err = e.copyToPeer(r, s, stride, w, k)
	}
	if beside {
		return errors.Join(err, side.Join(s))
	}
	if own != dst && err == nil {
		err = s.Copy(dst, own, r.Bytes())
	}
	return err
}

// copyToPeer copies a slice to the kth rank after this one.
func (e *Engine) copyToPeer(r *algorithm.Request, s *cuda.Stream, stride int64, w *window, k int) error {
	p := (e.rank + k) % e.size
	at := int64(r.Recv-w.base) + int64(e.rank)*r.Bytes()
	return s.Copy(w.parts[p].mapping.Ptr.Add(at), r.Send.Add(int64(p)*stride), r.Bytes())
}

func copyBeside(side *cuda.Side, dst, src device.Ptr, n int64) error {
	s, err := side.Begin()
	if err != nil {
		return err
	}
	return s.Copy(dst, src, n)
}

// barrierBehindCopies does not come onto the GPU early: a launch may overlap another, not a copy.
func (e *Engine) barrierBehindCopies(s *cuda.Stream) error {
	overlaps := e.overlaps
	e.overlaps = false
	defer func() { e.overlaps = overlaps }()
	return e.barrier(s)
}
