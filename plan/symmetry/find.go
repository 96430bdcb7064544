package symmetry

import (
	"slices"

	"github.com/goccl/goccl/plan"
)

// maxCandidates bounds how many ranks in a row are tried in vain as the image of rank 0.
const maxCandidates = 64

// programs gives the resolved program of a thread block.
type programs func(rank, block int) []plan.Step

// symmetryOf returns the group of renamings of ranks and chunks under which the plan stays as it is, as far as it is
// found, or nil. A renaming keeps the order of channels, thread blocks and ops, so the image of rank 0 determines it:
//
//  1. ranks: channel i of a rank leads where channel i of its image leads
//  2. chunks: what the collective fixes, then operand by operand, from all ranks and their images
//  3. check: every op of every rank, renamed, is the op of the rank's image
//
// Step 3 alone is what the verifier relies on. It compares the ranks for which has is true; nil stands for all. Where
// it compares some, they must tell the image of every chunk.
func symmetryOf(p *plan.Plan, links *plan.Links, of programs, has func(rank int) bool) *Group {
	n := len(p.GPUs)
	if n < 2 || !symmetric(p.Collective) || p.Hooked() || p.Counted() {
		// the quotient examines no caller's work at hooks, and no counts
		return nil
	}
	part := has != nil
	if !part {
		has = all
	}
	_, group := generate(n, has, func(image int) *Renaming {
		f := finder{p: p, links: links, of: of, has: has, part: part}
		return f.find(image)
	})
	return group
}

// generate returns the group of the renamings that find returns for images of rank 0, among ranks for which has is
// true, and its generators.
func generate(n int, has func(rank int) bool, find func(image int) *Renaming) (gens []*Renaming, group *Group) {
	for r, failed := 1, 0; r < n && failed < maxCandidates; r++ {
		if group != nil && group.rep[r] == 0 || !has(r) {
			continue
		}
		g := find(r)
		if g == nil {
			failed++
			continue
		}
		if s := Generate(append(gens[:len(gens):len(gens)], g)); s != nil {
			gens, group = append(gens, g), s
		}
	}
	return gens, group
}

func all(int) bool { return true }

// symmetric reports whether the collective demands the same of all ranks. A root is kept by all renamings, and a
// postcondition in a file is not renamed.
func symmetric(c plan.Collective) bool { return c.Known() && c != plan.Broadcast && c != plan.Reduce }

// finder finds the renaming that takes rank 0 to a given rank.
type finder struct {
	p     *plan.Plan
	links *plan.Links
	of    programs
	has   func(rank int) bool
	part  bool // not all ranks are there

	ranks  []int32
	chunks [3][]int32
	pairs  []pair // movements of several chunks
}

func (f *finder) find(image int) *Renaming {
	if !f.findRanks(image) || !f.fixChunks() {
		return nil
	}
	for r := range f.p.GPUs {
		if f.has(r) && f.has(int(f.ranks[r])) && !f.compare(r, int(f.ranks[r])) {
			return nil
		}
	}
	if !f.settle() || !f.complete() {
		return nil
	}
	return &Renaming{Ranks: f.ranks, Chunks: f.chunks}
}

// findRanks follows the channels from rank 0. A plan whose channels do not connect all ranks has no renaming.
func (f *finder) findRanks(image int) bool {
	n := len(f.p.GPUs)
	f.ranks = unknown(n)
	taken := make([]bool, n)
	assign := func(a, b int) bool {
		if f.ranks[a] < 0 && !taken[b] {
			f.ranks[a], taken[b] = int32(b), true
			return true
		}
		return int(f.ranks[a]) == b
	}
	assign(0, image)
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		a := queue[0]
		b := int(f.ranks[a])
		first, end := f.links.Of(a)
		firstB, endB := f.links.Of(b)
		if end-first != endB-firstB {
			return false
		}
		for i := range end - first {
			la, lb := &f.links.All[first+i], &f.links.All[firstB+i]
			seen := f.ranks[la.Peer] >= 0
			if la.Type != lb.Type || la.Nth != lb.Nth || !assign(la.Peer, lb.Peer) {
				return false
			}
			if !seen {
				queue = append(queue, la.Peer)
			}
		}
	}
	return !slices.Contains(f.ranks, -1) && (f.p.Collective != plan.SendRecv || f.shifts())
}

// shifts reports whether the renaming takes each message of a sendrecv, with its sender and receiver, to another
// message.
func (f *finder) shifts() bool {
	n := len(f.ranks)
	for r, to := range f.ranks {
		if int(f.ranks[(r+1)%n]) != (int(to)+1)%n {
			return false
		}
	}
	return true
}

func unknown(n int) []int32 { return slices.Repeat([]int32{-1}, n) }

// fixChunks fills in the chunks whose image the collective determines: those that belong to a rank follow it.
func (f *finder) fixChunks() bool {
	p, n := f.p, len(f.p.GPUs)
	_, period, _ := p.Blocks()
	byRank := func(count int) []int32 {
		if count != n*period {
			return nil
		}
		out := make([]int32, count)
		for k := range out {
			out[k] = f.ranks[k/period]*int32(period) + int32(k%period)
		}
		return out
	}
	in, out := p.ChunkCount(0, plan.Input), p.ChunkCount(0, plan.Output)
	switch p.Collective {
	case plan.AllGather:
		f.chunks[plan.InputPlane], f.chunks[plan.OutputPlane] = identityMap(in), byRank(out)
	case plan.ReduceScatter:
		f.chunks[plan.InputPlane], f.chunks[plan.OutputPlane] = byRank(in), identityMap(out)
	case plan.AllToAll:
		f.chunks[plan.InputPlane] = byRank(in)
		f.chunks[plan.OutputPlane] = f.chunks[plan.InputPlane]
	default: // input and output hold the same chunks
		f.chunks[plan.InputPlane] = unknown(in)
		f.chunks[plan.OutputPlane] = f.chunks[plan.InputPlane]
	}
	f.chunks[plan.ScratchPlane] = unknown(p.GPUs[0].ScratchChunks)
	return f.chunks[plan.InputPlane] != nil && f.chunks[plan.OutputPlane] != nil
}

// complete gives chunks that no op names the images that are left, and reports whether all maps are one to one.
func (f *finder) complete() bool {
	for pl := range f.chunks {
		m := f.chunks[pl]
		taken := make([]bool, len(m))
		for _, to := range m {
			if to >= 0 {
				if taken[to] {
					return false
				}
				taken[to] = true
			}
		}
		next := 0
		for k, to := range m {
			if to >= 0 {
				continue
			}
			if f.part {
				return false
			}
			for taken[next] {
				next++
			}
			m[k], taken[next] = int32(next), true
		}
	}
	return true
}

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
				if !f.ordered(pair{m, k}, nil) {
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
	for _, side := range [2][2][]plan.Place{{p.left.Src, p.right.Src}, {p.left.Dst, p.right.Dst}} {
		for i := range side[0] {
			if !visit(&side[0][i], &side[1][i]) {
				return false
			}
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
			if f.part || !f.ordered(rest[0], nil) {
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

// ordered names the images of a movement's chunks, at the positions in order; nil: in their own order.
func (f *finder) ordered(p pair, order []int) bool {
	return p.operands(func(x, y *plan.Place) bool {
		m := f.mapOf(x)
		for k := range m {
			at := k
			if order != nil {
				at = order[k]
			}
			if !name(m, k, y.Index+at) {
				return false
			}
		}
		return true
	})
}
