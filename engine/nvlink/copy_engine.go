package nvlink

import (
	"errors"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/share"
)

// copyMode selects when copy engines run all-gathers and all-to-alls into windows. The ranks use the minimum of their
// modes.
type copyMode setting.Copies

const (
	copyNever  = copyMode(setting.CopyNever)
	copyLarge  = copyMode(setting.CopyLarge)
	copyAlways = copyMode(setting.CopyAlways) // from copyFrom
)

// These are the slice sizes from which copy engines run a collective. copyAlways uses copyFrom, where copies can pay
// for the two barriers around them. copyLarge uses the sizes where copies took no longer than kernels
// (docs/windows.md). In-place and out-of-place all-gathers share one bound, because a rank cannot know which of them
// its peers run.
const (
	copyFrom          = 1 << 20
	copyZeroFrom      = 8 << 10 // with CTAPolicyZero: below, a kernel takes one block, as barriers do
	copyAllGatherFrom = 64 << 20
	copyAllToAllFrom  = 32 << 20
)

// from is the smallest slice of a collective that goes through copy engines with policy p.
func (m copyMode) from(c collective.Collective, p collective.CTAPolicy) int64 {
	switch {
	case p == collective.CTAPolicyZero:
		return copyZeroFrom
	case m == copyAlways || p == collective.CTAPolicyEfficiency:
		return copyFrom
	case c == collective.AllToAll:
		return copyAllToAllFrom
	}
	return copyAllGatherFrom
}

// copyWindow returns the window through which the copy engines run an all-gather or an all-to-all, or nil. All ranks
// decide the same: by the size, by the offset of recv in its window, which is the same on all ranks by contract, and by
// the agreed mode.
func (e *Engine) copyWindow(r *collective.Request) (*share.Window, error) {
	if e.windows == nil || r.Bytes() < e.copyMode.from(r.Collective, e.call.policy) || e.table.forced[r.Collective] ||
		r.Algorithm != "" ||
		r.Collective == collective.AllToAll && r.Send == r.Recv {
		return nil, nil
	}
	w := e.windows.Find(r.Recv, r.Bytes()*int64(e.size))
	if w == nil {
		return nil, nil
	}
	if usable, err := w.Await(); !usable || err != nil {
		return nil, bootstrap.Kind(err)
	}
	return w, nil
}

// copies runs an all-gather (stride 0) or an all-to-all with the copy engines. Each rank writes its slices into the
// peers' parts of a window.
//
//  1. A barrier: every rank's stream has arrived, so the outputs may be overwritten. It also orders the following work
//     after this rank's work on other streams.
//  2. A copy to each peer, starting with the next rank, so that each port has one sender and one receiver at any time.
//     This rank's own slice, unless it is in place, is copied on a side stream meanwhile: it needs no port. The side
//     stream forks after step 1 and is joined before step 3.
//  3. A barrier: each rank's barrier follows its copies, so when it has passed all copies are done. Its ticket marks
//     the end of all three steps.
//
// Copies cannot poll the abort word. After a failure the enqueued copies still run, and the contents of windows are
// undefined.
func (e *Engine) copies(r *collective.Request, s *cuda.Stream, stride int64, w *share.Window) error {
	if err := e.barrier(s); err != nil {
		return err
	}
	err := e.copySlices(r, s, stride, w)
	if err == nil {
		err = e.barrierBehindCopies(s)
	}
	if err != nil { // the enqueued work needs its own mark
		return errors.Join(err, e.launcher.Order.Leave(s))
	}
	return nil
}

func (e *Engine) copySlices(r *collective.Request, s *cuda.Stream, stride int64, w *share.Window) error {
	side, slot := e.side, int64(e.rank)*r.Bytes()
	own, dst := r.Send.Add(int64(e.rank)*stride), r.Recv.Add(slot)
	beside := false
	if own != dst {
		var err error
		if beside, err = side.Fork(s); err != nil {
			return err
		}
	}
	// Enqueue the first copy before the host spends time on the side stream. Join the side stream even after an error,
	// so that s covers all enqueued work.
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

// copyToPeer copies a slice to rank e.rank+k, modulo the number of ranks.
func (e *Engine) copyToPeer(r *collective.Request, s *cuda.Stream, stride int64, w *share.Window, k int) error {
	p := (e.rank + k) % e.size
	at := int64(r.Recv-w.Base()) + int64(e.rank)*r.Bytes()
	return s.Copy(w.Parts().Ptr[p].Add(at), r.Send.Add(int64(p)*stride), r.Bytes())
}

func copyBeside(side *cuda.Side, dst, src device.Ptr, n int64) error {
	s, err := side.Begin()
	if err != nil {
		return err
	}
	return s.Copy(dst, src, n)
}

// barrierBehindCopies launches a barrier without overlap: a launch may overlap another launch, but not a copy.
func (e *Engine) barrierBehindCopies(s *cuda.Stream) error {
	overlaps := e.overlaps
	e.overlaps = false
	defer func() { e.overlaps = overlaps }()
	return e.barrier(s)
}
