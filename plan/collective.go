package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// ChunkCount returns the number of chunks of a rank's buffer. An in-place plan may state 0 for input or for output when
// both are the same memory; then the other count holds for both.
func (p *Plan) ChunkCount(rank int, t BufferType) int {
	g := &p.GPUs[rank]
	switch t {
	case Input:
		if g.InputChunks == 0 && p.InPlace && p.sameShape() {
			return g.OutputChunks
		}
		return g.InputChunks
	case Output:
		if g.OutputChunks == 0 && p.InPlace && p.sameShape() {
			return g.InputChunks
		}
		return g.OutputChunks
	}
	return g.ScratchChunks
}

// sameShape reports whether input and output of the collective have the same size.
func (p *Plan) sameShape() bool {
	return p.Collective != AllGather && p.Collective != ReduceScatter
}

// Known reports whether the collective's name determines its postcondition.
func (c Collective) Known() bool {
	switch c {
	case AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Reduce, SendRecv:
		return true
	}
	return false
}

// Unstated reports whether nothing says what the plan must compute.
func (p *Plan) Unstated() bool { return !p.Collective.Known() && len(p.Postcondition) == 0 }

// chunkCounts checks that the chunk counts of all ranks divide the message as the collective requires.
func (v *validator) chunkCounts() {
	p, n := v.p, len(v.p.GPUs)
	if v.err != nil {
		return
	}
	if !p.Collective.Known() {
		return
	}
	first := -1
	for r := range p.GPUs {
		v.pos = Pos{r, -1, -1, -1}
		in, out := p.ChunkCount(r, Input), p.ChunkCount(r, Output)
		base, other, factor := in, out, 1
		switch p.Collective {
		case AllGather:
			factor = n
		case ReduceScatter:
			base, other, factor = out, in, n
		case AllToAll:
			v.need(in%n == 0, "input_chunks", "%d chunks do not divide among %d ranks", in, n)
		case Broadcast:
			if r != p.Root && in == 0 {
				base = out
			}
		case Reduce:
			if r != p.Root && out == 0 {
				other = in
			}
		case SendRecv:
			v.need(n >= 2, "", "a sendrecv needs two ranks or more")
		}
		if first < 0 {
			first = base
		}
		v.need(base > 0 && other == base*factor, "output_chunks", "%d input and %d output chunks do not fit %s over %d ranks",
			in, out, p.Collective, n)
		v.need(base == first, "input_chunks", "rank %d divides its message into %d chunks and rank 0 into %d", r, base, first)
	}
	v.pos = Nowhere
}

func (v *validator) postcondition() {
	if v.err != nil {
		return
	}
	p := v.p
	v.need(len(p.Postcondition) == 0 || !p.Collective.Known(), "postcondition",
		"%s has its own; only a user-defined collective states one", p.Collective)
	terms := 0
	for i := range p.Postcondition {
		c := &p.Postcondition[i]
		at := fmt.Sprintf("postcondition[%d]", i)
		v.need(c.Op.Valid(), at+".reduce_op", "%q is not sum, min, max or prod", c.Op)
		if !v.need(c.Rank >= 0 && c.Rank < len(p.GPUs), at+".rank", "rank %d of %d", c.Rank, len(p.GPUs)) {
			return
		}
		v.span(c.Index, c.Size, p.ChunkCount(c.Rank, Output), at)
		v.need(len(c.Of) > 0, at+".of", "no contribution")
		terms += len(c.Of) * max(1, c.Size)
		v.within(terms, 0, v.l.PostcondTerms, at, "the number of contributions in the plan")
		for j, t := range c.Of {
			field := fmt.Sprintf("%s.of[%d]", at, j)
			if !v.need(t.Rank >= 0 && t.Rank < len(p.GPUs), field+".rank", "rank %d of %d", t.Rank, len(p.GPUs)) {
				return
			}
			v.span(t.Index, c.Size, p.ChunkCount(t.Rank, Input), field)
		}
		if v.err != nil {
			return
		}
	}
	v.onePostcondition()
}

// onePostcondition checks that no chunk has two postconditions.
func (v *validator) onePostcondition() {
	list := v.p.Postcondition
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(list[a].Rank, list[b].Rank), cmp.Compare(list[a].Index, list[b].Index))
	})
	last, end := -1, 0 // the previous entry, which reaches farthest
	for _, i := range order {
		c := &list[i]
		if last >= 0 && list[last].Rank == c.Rank && c.Index < end {
			v.bad(ErrInvalid, fmt.Sprintf("postcondition[%d].index", max(i, last)),
				"chunk %d of rank %d has a postcondition already, in postcondition[%d]", c.Index, c.Rank, min(i, last))
			return
		}
		last, end = i, c.Index+c.Size
	}
}

func (v *validator) span(index, size, count int, field string) {
	v.need(size >= 1 && index >= 0 && size <= count && index <= count-size, field+".index", "chunks %d to %d of %d", index,
		index+size-1, count)
}

// Demand is what an output chunk must contain when a launch has ended.
type Demand struct {
	Of        []Contribution // sorted by rank, then index
	Untouched bool           // the plan must not write it
	Free      bool           // unconstrained
	Op        ReduceOp       // of a user-defined reduction; AnyOp for the named collectives
}

// AnyOp stands for any one operator.
const AnyOp ReduceOp = "any"

// Demands returns what the output chunks of a rank must contain.
func (p *Plan) Demands(rank int) []Demand {
	n, period := len(p.GPUs), p.Period()
	out := make([]Demand, p.ChunkCount(rank, Output))
	all := func(k int) []Contribution {
		of := make([]Contribution, n)
		for r := range of {
			of[r] = Contribution{r, k}
		}
		return of
	}
	for k := range out {
		d := Demand{Op: AnyOp}
		switch p.Collective {
		case AllReduce:
			d.Of = all(k)
		case AllGather:
			d.Of = []Contribution{{k / period, k % period}}
		case ReduceScatter:
			d.Of = all(rank*period + k)
		case AllToAll:
			d.Of = []Contribution{{k / period, rank*period + k%period}}
		case Broadcast:
			d.Of = []Contribution{{p.Root, k}}
		case Reduce:
			if rank == p.Root {
				d.Of = all(k)
			} else {
				d.Untouched = true
			}
		case SendRecv:
			d.Of = []Contribution{{(rank + n - 1) % n, k}}
		default:
			d.Free = true
		}
		out[k] = d
	}
	for i := range p.Postcondition {
		c := &p.Postcondition[i]
		if c.Rank != rank {
			continue
		}
		for k := range c.Size {
			of := slices.Clone(c.Of)
			for j := range of {
				of[j].Index += k
			}
			slices.SortFunc(of, func(a, b Contribution) int {
				return cmp.Or(a.Rank-b.Rank, a.Index-b.Index)
			})
			out[c.Index+k] = Demand{Of: of, Op: c.Op}
		}
	}
	return out
}

// MovesChunks reports whether the plan's result alone implies that it accepts even messages only: bytes of one chunk
// end up at the place of another, or its chunks do not form blocks. The way a plan computes its result may also imply
// it: see Report.EvenOnly.
func (p *Plan) MovesChunks() bool {
	_, period, custom := p.Blocks()
	for i := range p.Postcondition {
		c := &p.Postcondition[i]
		for _, t := range c.Of {
			custom = custom || t.Index%period != c.Index%period
		}
	}
	return custom
}
