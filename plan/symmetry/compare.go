package symmetry

import (
	"slices"

	"github.com/goccl/goccl/plan"
)

// pair is a movement and the one that must be its image.
type pair struct{ left, right *plan.Move }

// compare reports whether rank b runs what rank a runs, renamed. Movements wait in f.pairs for chunks.
func (f *finder) compare(a, b int) bool {
	ga, gb := &f.p.GPUs[a], &f.p.GPUs[b]
	if len(ga.ThreadBlocks) != len(gb.ThreadBlocks) || ga.ScratchChunks != gb.ScratchChunks ||
		ga.InputChunks != gb.InputChunks || ga.OutputChunks != gb.OutputChunks ||
		!slices.Equal(ga.Semaphores, gb.Semaphores) {
		return false
	}
	for block := range ga.ThreadBlocks {
		if !f.steps(a, f.of(a, block), f.of(b, block), false) {
			return false
		}
	}
	return true
}

func (f *finder) steps(a int, left, right []plan.Step, loop bool) bool {
	if len(left) != len(right) {
		return false
	}
	for i := range left {
		x, y := &left[i], &right[i]
		p, q := x.Op, y.Op
		same := p.Name == q.Name && x.Does == y.Does && p.ChannelType == q.ChannelType && p.Slice == q.Slice &&
			p.ReduceOp == q.ReduceOp && p.BarrierID == q.BarrierID && p.NumThreadBlocks == q.NumThreadBlocks &&
			p.UnitSize == q.UnitSize && p.NumChunks == q.NumChunks && slices.Equal(p.SemaphoreIDs, q.SemaphoreIDs)
		// Channel i of a leads where channel i of b leads (findRanks), so channels have equal numbers.
		if !same || !slices.Equal(x.Channels, y.Channels) || len(x.Moves) != len(y.Moves) ||
			!f.steps(a, x.Body, y.Body, true) {
			return false
		}
		for j := range x.Moves {
			m, k := &x.Moves[j], &y.Moves[j]
			if m.Entry != k.Entry || farPackets(a, m.Src) || !f.similar(m.Src, k.Src) || !f.similar(m.Dst, k.Dst) {
				return false
			}
			// Slices and the windows of a loop cut a range of chunks at places that depend on their order.
			if loop || p.Slice.Count > 1 || m.Dst[0].Size == 1 {
				if !f.inOrder(m, k) {
					return false
				}
				continue
			}
			f.pairs = append(f.pairs, pair{m, k})
		}
	}
	return true
}

// farPackets reports whether a rank reads packets in the memory of another, which the quotient does not follow.
func farPackets(rank int, src []plan.Place) bool {
	return slices.ContainsFunc(src, func(pl plan.Place) bool { return pl.Plane == plan.PacketPlane && pl.Rank != rank })
}

// similar compares operands except for the numbers of their chunks.
func (f *finder) similar(left, right []plan.Place) bool {
	return slices.EqualFunc(left, right, func(x, y plan.Place) bool {
		return int(f.ranks[x.Rank]) == y.Rank && x.Plane == y.Plane && x.Size == y.Size
	})
}

// operands visits each place of a movement beside the same place of its image.
func (p pair) operands(visit func(x, y *plan.Place) bool) bool {
	for i := range p.left.Src {
		if !visit(&p.left.Src[i], &p.right.Src[i]) {
			return false
		}
	}
	for i := range p.left.Dst {
		if !visit(&p.left.Dst[i], &p.right.Dst[i]) {
			return false
		}
	}
	return true
}

func (f *finder) mapOf(pl *plan.Place) []int32 {
	return f.chunks[min(pl.Plane, plan.ScratchPlane)][pl.Index:][:pl.Size]
}

// name records that a chunk has an image, and reports whether it had no other.
func name(m []int32, k, to int) bool {
	if m[k] < 0 {
		m[k] = int32(to)
	}
	return int(m[k]) == to
}

// inOrder names the images of chunks one by one in their order.
func (f *finder) inOrder(left, right *plan.Move) bool {
	return pair{left, right}.operands(func(x, y *plan.Place) bool {
		m := f.mapOf(x)
		for k := range m {
			if !name(m, k, y.Index+k) {
				return false
			}
		}
		return true
	})
}

// settle names the images of chunks that movements of several chunks have. Such a movement is a set of movements of
// one chunk each, and only the set is renamed, not their order: where the images of one operand are known, they tell
// which of them is which. When no movement tells, one keeps its order.
func (f *finder) settle() bool {
	for len(f.pairs) > 0 {
		rest := f.pairs[:0]
		for _, p := range f.pairs {
			order, ok := f.order(p)
			switch {
			case !ok:
				return false
			case order == nil:
				rest = append(rest, p)
			case !f.ordered(p, order):
				return false
			}
		}
		if len(rest) == len(f.pairs) {
			if f.part || !f.inOrder(rest[0].left, rest[0].right) {
				return false
			}
			rest = rest[1:]
		}
		f.pairs = rest
	}
	return true
}

// order returns the positions of the images of a movement's chunks, or nil when no operand tells.
func (f *finder) order(p pair) (order []int, ok bool) {
	ok = p.operands(func(x, y *plan.Place) bool {
		m := f.mapOf(x)
		if order != nil || slices.Contains(m, -1) {
			return true
		}
		order = make([]int, len(m))
		for k, to := range m {
			order[k] = int(to) - y.Index
			if order[k] < 0 || order[k] >= y.Size {
				return false
			}
		}
		return true
	})
	return order, ok
}

func (f *finder) ordered(p pair, order []int) bool {
	return p.operands(func(x, y *plan.Place) bool {
		m := f.mapOf(x)
		for k, at := range order {
			if !name(m, k, y.Index+at) {
				return false
			}
		}
		return true
	})
}
