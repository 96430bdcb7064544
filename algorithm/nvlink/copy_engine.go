package nvlink

import (
	"errors"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/device/cuda"
)

// copyFrom is the slice from which copy engines are worth the two barriers around them.
const copyFrom = 1 << 20

// copyWindow is the window by which the copy engines run an all-gather or an all-to-all, or nil. All ranks decide alike: by the size, by where recv lies,
// which the contract of windows makes the same, and by what they have agreed on.
func (e *Engine) copyWindow(r *algorithm.Request) (*window, error) {
	if e.symmetric == nil || r.Bytes() < copyFrom || e.table.forced[r.Collective] || r.Collective == algorithm.AllToAll && r.Send == r.Recv {
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
//  2. A copy to each peer, to the next rank first: so each port has one sender and one receiver at any time. Then the own slice, unless it is in place.
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
	bytes := r.Bytes()
	slot := int64(e.rank) * bytes
	at := int64(r.Recv-w.base) + slot
	for k := 1; k < e.size; k++ {
		p := (e.rank + k) % e.size
		if err := s.Copy(w.parts[p].mapping.Ptr.Add(at), r.Send.Add(int64(p)*stride), bytes); err != nil {
			return err
		}
	}
	if own, dst := r.Send.Add(int64(e.rank)*stride), r.Recv.Add(slot); own != dst {
		return s.Copy(dst, own, bytes)
	}
	return nil
}

// barrierBehindCopies does not come onto the GPU early: a launch may overlap another, not a copy.
func (e *Engine) barrierBehindCopies(s *cuda.Stream) error {
	overlaps := e.overlaps
	e.overlaps = false
	defer func() { e.overlaps = overlaps }()
	return e.barrier(s)
}
