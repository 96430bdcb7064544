package nvlink

import (
	"errors"
	"math"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/share"
)

// tokensByDefault lets tokens take the place of barrier kernels also where the table chooses copy engines and no policy
// asks to spare SMs. A barrier of kernels takes 3 µs, a barrier of tokens 15 on four H100, because each memory
// operation of a stream takes more than a microsecond (bench/results/2026-11-28-4xH100-6d73cbd).
const tokensByDefault = false

// copyMode selects when copy engines run collectives into windows. The ranks use the minimum of their modes.
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
	copyZeroFrom      = 8 << 10 // with CTAPolicyZero, without tokens: below, a kernel takes one block, as barriers do
	copyAllGatherFrom = 64 << 20
	copyAllToAllFrom  = 32 << 20

	copySplitFrom = 1 << 20 // from here on a root sends each byte once and the others forward it; not measured
)

// copiesFrom is the smallest slice of a collective that goes through copy engines with policy p.
func (e *Engine) copiesFrom(c collective.Collective, p collective.CTAPolicy) int64 {
	m := e.copyMode
	switch {
	case e.tokens != nil && p == collective.CTAPolicyZero:
		return 1
	case c == collective.Broadcast && (e.tokens == nil || m != copyAlways):
		return math.MaxInt64
	case p == collective.CTAPolicyZero:
		return copyZeroFrom
	case m == copyAlways || p == collective.CTAPolicyEfficiency:
		return copyFrom
	case c == collective.AllToAll:
		return copyAllToAllFrom
	}
	return copyAllGatherFrom
}

// byTokens reports whether the barriers around the copies of the current request are tokens.
func (e *Engine) byTokens() bool {
	return e.tokens != nil && (e.zero() || e.copyMode == copyAlways || tokensByDefault)
}

// zero reports whether the current request takes no SM, if copy engines can do its work.
func (e *Engine) zero() bool { return e.tokens != nil && e.call.policy == collective.CTAPolicyZero }

// chosen reports whether the user has named an algorithm.
func (e *Engine) chosen(r *collective.Request) bool {
	return e.table.forced[r.Collective] || r.Algorithm != ""
}

// copyWindow returns the window through which the copy engines run a collective, of which recv takes some slices, or
// nil. All ranks decide the same: by the size, by the offset of recv in its window, which is the same on all ranks by
// contract, and by the agreed mode.
func (e *Engine) copyWindow(r *collective.Request, slices int) (*share.Window, error) {
	if e.windows == nil || r.Bytes() < e.copiesFrom(r.Collective, e.call.policy) || e.chosen(r) ||
		r.Collective == collective.AllToAll && r.Send == r.Recv {
		return nil, nil
	}
	w := e.windows.Find(r.Recv, r.Bytes()*int64(slices))
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
//  3. A barrier: each rank's barrier follows its copies, so when it has passed all copies are done.
//
// The barriers are kernels, or tokens. Copies cannot poll the abort word. After a failure the enqueued copies still
// run, and the contents of windows are undefined.
func (e *Engine) copies(r *collective.Request, s *cuda.Stream, stride int64, w *share.Window) error {
	if e.byTokens() {
		return e.ordered(s, func() error {
			return e.between(s, e.others(), e.others(), func() error { return e.copySlices(r, s, stride, w) })
		})
	}
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

// ordered runs work that launches no kernel in the order of the engine.
func (e *Engine) ordered(s *cuda.Stream, work func() error) error {
	if err := e.launcher.Order.Enter(s); err != nil {
		return err
	}
	return errors.Join(work(), e.launcher.Order.Leave(s))
}

// between enqueues copies to the memory of some ranks, while the ranks of ours copy to this rank's memory.
func (e *Engine) between(s *cuda.Stream, theirs, ours ranks, copies func() error) error {
	err := e.tokens.meet(s, free, ours, theirs)
	if err == nil {
		err = copies()
	}
	if err != nil {
		return err
	}
	return e.tokens.meet(s, full, theirs, ours)
}

// others is the set of all ranks except this one.
func (e *Engine) others() ranks { return (1<<e.size - 1) &^ (1 << e.rank) }

// copyBroadcast runs a broadcast into a window. Large data leave the root once, in slices that the other ranks forward.
func (e *Engine) copyBroadcast(r *collective.Request, s *cuda.Stream, w *share.Window) error {
	total, root := r.Bytes(), ranks(1)<<r.Root
	split := total >= copySplitFrom && e.size > 2
	put := func(p, slice int) error {
		at, end := int64(0), total
		if split {
			n := sliceOf(total, int64(e.size-1))
			at, end = min(total, int64(slice)*n), min(total, int64(slice+1)*n)
		}
		from := r.Recv
		if e.rank == r.Root {
			from = r.Send
		}
		return s.Copy(w.Parts().Ptr[p].Add(int64(r.Recv-w.Base())+at), from.Add(at), end-at)
	}
	toAll := func(slice int) error {
		for k := 1; k < e.size; k++ {
			p := (e.rank + k) % e.size
			if p == r.Root {
				continue
			}
			mine := slice
			if e.rank == r.Root {
				mine = k - 1
			}
			if err := put(p, mine); err != nil {
				return err
			}
		}
		return nil
	}
	return e.ordered(s, func() error {
		if e.rank == r.Root {
			return e.between(s, e.others(), 0, func() error {
				if r.Send != r.Recv {
					return errors.Join(toAll(0), s.Copy(r.Recv, r.Send, total))
				}
				return toAll(0)
			})
		}
		err := e.between(s, 0, root, func() error { return nil })
		if split && err == nil {
			peers := e.others() &^ root
			err = e.between(s, peers, peers, func() error { return toAll((e.rank-r.Root+e.size)%e.size - 1) })
		}
		return err
	})
}

// throughStages runs the messages of e.batch without a kernel: in each round, a chunk for each peer goes to its stage
// in the peer's arena, and from there to its place. All ranks take part, and both sides of a message cut it the same
// way. In place, a chunk is sent before another takes its place.
func (e *Engine) throughStages(s *cuda.Stream) error {
	b, from := &e.batch, e.batch.from
	if err := b.pair(e.rank); err != nil {
		return err
	}
	b.from = math.MaxInt64
	b.sort(e.rank, false)
	b.from = from
	return e.ordered(s, func() error {
		for _, own := range b.own {
			for ; len(own) > 0; own = own[2:] {
				src, dst := &b.all[own[0]], &b.all[own[1]]
				if err := s.Copy(dst.ptr, src.ptr, src.bytes); err != nil {
					return err
				}
			}
		}
		var done [2 * maxRanks]int64 // of the first message of each list
		for {
			var lists [2]ranks // receives, sends
			for p := range e.size {
				for dir := range lists {
					if b.head[2*p+dir] >= 0 {
						lists[dir] |= 1 << p
					}
				}
			}
			if lists[0]|lists[1] == 0 {
				return nil
			}
			err := e.between(s, lists[1], lists[0], func() error { return e.chunks(s, 1, &done) })
			if err == nil {
				err = e.chunks(s, 0, &done)
			}
			if err != nil {
				return err
			}
		}
	})
}

// chunks copies the next chunk of every list of a direction: of sends (1) into the peers' stages, of receives (0) out
// of this rank's stages.
func (e *Engine) chunks(s *cuda.Stream, dir int, done *[2 * maxRanks]int64) error {
	b := &e.batch
	for k := 1; k < e.size; k++ {
		p := (e.rank + k) % e.size
		q := 2*p + dir
		if b.head[q] < 0 {
			continue
		}
		t := &b.all[b.head[q]]
		at := t.ptr.Add(done[q])
		n := min(e.stage, t.bytes-done[q])
		dst, src := e.stageOf(p, e.rank), at
		if dir == 0 {
			dst, src = at, e.stageOf(e.rank, p)
		}
		if err := s.Copy(dst, src, n); err != nil {
			return err
		}
		if done[q] += n; done[q] == t.bytes {
			b.head[q], done[q] = b.next[b.head[q]], 0
		}
	}
	return nil
}

// stageOf returns the stage of a sender in a rank's arena.
func (e *Engine) stageOf(owner, sender int) device.Ptr {
	return e.arena.Ptr[owner].Add(e.layout().stageOffset() + int64(sender)*e.stage)
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
