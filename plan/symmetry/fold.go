package symmetry

import (
	"fmt"
	"slices"

	"github.com/goccl/goccl/plan"
)

// Folded is a plan in which many ranks run the same program, renamed: the program of one rank of every orbit, and the
// renamings that make the programs of the others. It is small whatever the number of ranks.
type Folded struct {
	// Plan has all ranks, and their channels and semaphores, but thread blocks and remote buffers of representatives
	// only.
	Plan     *plan.Plan
	Symmetry *Group
}

// Validate checks the plan, that its renamings keep what the collective demands, and that they make ops of ops: the
// image of a range of chunks is a range, and a movement's operands keep their pairing.
func (f *Folded) Validate() error {
	if err := f.Plan.Validate(&plan.Capacity); err != nil {
		return err
	}
	for _, e := range f.Symmetry.elements {
		if !e.keepsDemands(f.Plan) {
			return &plan.Error{Class: plan.ErrInvalid, Pos: plan.Nowhere,
				Detail: fmt.Sprintf("the symmetry does not keep what %s demands", f.Plan.Collective)}
		}
	}
	for _, rank := range f.Symmetry.Representatives() {
		for b := range f.Plan.GPUs[rank].ThreadBlocks {
			for s, m := range plan.EachMove(f.Plan.Program(rank, b)) {
				if m.Dst[0].Size > 1 && !f.Symmetry.keepsRanges(m, cutsBytes(s)) {
					return &plan.Error{Class: plan.ErrInvalid, Pos: s.Pos, Detail: "the symmetry takes its chunks to no such op"}
				}
			}
		}
	}
	return nil
}

// Encode passes the encoding of the plan of all ranks to visit, in parts, until visit fails. The programs of one rank
// at a time are in memory.
func (f *Folded) Encode(visit func(part []byte) error) error {
	if err := f.Validate(); err != nil {
		return err
	}
	return f.Plan.EncodeParts(f.GPU, f.Symmetry.Representatives(), f.Symmetry.Order(), visit)
}

// keepsDemands reports whether the renaming takes the demands of the collective on each rank to its demands on the
// rank's image.
func (g *Renaming) keepsDemands(p *plan.Plan) bool {
	n := len(p.GPUs)
	f := finder{p: p, ranks: g.Ranks}
	if !symmetric(p.Collective) || len(g.Ranks) != n || !f.fixChunks() || p.Collective == plan.SendRecv && !f.shifts() {
		return false
	}
	for pl, want := range f.chunks {
		if len(want) != len(g.Chunks[pl]) {
			return false
		}
		for k, to := range want {
			if to >= 0 && to != g.Chunks[pl][k] {
				return false
			}
		}
	}
	one := p.Collective == plan.AllReduce || p.Collective == plan.SendRecv // input and output hold the same chunks
	return !one || slices.Equal(g.Chunks[plan.InputPlane], g.Chunks[plan.OutputPlane])
}

// keepsRanges reports whether every element takes the chunks of each operand to a range, all operands in one order; in
// their own order with ordered.
func (s *Group) keepsRanges(m *plan.Move, ordered bool) bool {
	size := m.Dst[0].Size
	order := make([]int, size)
	for _, e := range s.elements {
		first := true
		ok := pair{m, m}.operands(func(pl, _ *plan.Place) bool {
			low := e.Chunk(pl.Plane, pl.Index)
			for k := range size {
				low = min(low, e.Chunk(pl.Plane, pl.Index+k))
			}
			for k := range size {
				at := e.Chunk(pl.Plane, pl.Index+k) - low
				if first {
					order[k] = at
				}
				if at >= size || at != order[k] || ordered && at != k {
					return false
				}
			}
			first = false
			return true
		})
		if !ok {
			return false
		}
	}
	return true
}

// Fold returns p with the renamings under which it stays as it is, or nil when none is found.
func Fold(p *plan.Plan) *Folded {
	links := p.Links()
	resolved := make([][][]plan.Step, len(p.GPUs))
	of := func(rank, block int) []plan.Step {
		for b := len(resolved[rank]); b <= block; b++ {
			resolved[rank] = append(resolved[rank], p.Program(rank, b))
		}
		return resolved[rank][block]
	}
	s := symmetryOf(p, links, of, nil)
	if s == nil {
		return nil
	}
	return fold(p, s)
}

// fold leaves out what renamings can make again.
func fold(p *plan.Plan, s *Group) *Folded {
	out := *p
	out.GPUs = make([]plan.GPU, len(p.GPUs))
	for r := range p.GPUs {
		out.GPUs[r] = p.GPUs[r]
		if int(s.rep[r]) != r {
			out.GPUs[r].ThreadBlocks, out.GPUs[r].RemoteBuffers = nil, nil
		}
	}
	return &Folded{Plan: &out, Symmetry: s}
}

// Unfold returns the plan of all ranks.
func (f *Folded) Unfold() *plan.Plan {
	out := *f.Plan
	out.GPUs = make([]plan.GPU, len(f.Plan.GPUs))
	for r := range out.GPUs {
		out.GPUs[r] = f.GPU(r)
	}
	return &out
}

// GPU returns the part of the plan that a rank runs.
func (f *Folded) GPU(rank int) plan.GPU {
	s := f.Symmetry
	rep, e := int(s.rep[rank]), s.elements[s.frame[rank]]
	if rep == rank {
		return f.Plan.GPUs[rank]
	}
	from, out := &f.Plan.GPUs[rep], f.Plan.GPUs[rank]
	out.RemoteBuffers = make([]plan.RemoteBuffer, len(from.RemoteBuffers))
	for i, b := range from.RemoteBuffers {
		out.RemoteBuffers[i] = plan.RemoteBuffer{Rank: int(e.Ranks[b.Rank]), Type: b.Type, Access: b.Access}
	}
	out.ThreadBlocks = make([]plan.ThreadBlock, len(from.ThreadBlocks))
	for i := range from.ThreadBlocks {
		w := renumber{of: e.span, from: from, tb: &from.ThreadBlocks[i]}
		out.ThreadBlocks[i] = *w.tb
		out.ThreadBlocks[i].Ops = w.ops(w.tb.Ops)
	}
	return out
}

// FoldRanks is Fold of a plan that is too large to be written. tables has the channels of all ranks and no programs;
// write returns the plan with the programs of the ranks for which has is true: representatives, and their images under
// the renamings that the channels suggest.
func FoldRanks(tables *plan.Plan, write func(has func(rank int) bool) (*plan.Plan, error)) (*Folded, error) {
	n := len(tables.GPUs)
	links := tables.Links()
	gens, group := generate(n, all, func(image int) *Renaming {
		f := finder{p: tables, links: links}
		if !f.findRanks(image) {
			return nil
		}
		return &Renaming{Ranks: f.ranks}
	})
	if group == nil {
		return nil, nil
	}
	for _, orbit := range []int{0, 1, maxOrbit} { // few ranks first: to write them is what takes time
		written, count := make([]bool, n), 0
		for _, rep := range group.Representatives() {
			for _, r := range sample(gens, int32(rep), orbit) {
				if !written[r] {
					written[r] = true
					count++
				}
			}
		}
		if orbit > 0 && count > maxSample {
			continue
		}
		has := func(rank int) bool { return written[rank] }
		p, err := write(has)
		if err != nil {
			return nil, err
		}
		s := symmetryOf(p, p.Links(), p.Program, has)
		// Otherwise, these ranks do not tell enough, or the programs have less symmetry than the channels.
		if s != nil && !slices.ContainsFunc(s.Representatives(), func(r int) bool { return !written[r] }) {
			return fold(p, s), nil
		}
	}
	return nil, nil
}

// maxOrbit bounds how many images of one rank under one renaming are written, for example all ranks of a host.
const maxOrbit = 16

// maxSample bounds how many ranks are written, after a first attempt with the fewest.
const maxSample = 64

// sample returns ranks whose programs together show the image of every chunk. One rank does not name all chunks: it may
// leave out the chunks of its host, or the ones that ranks with other local numbers handle. With orbit 0, the sample is
// the rank and its image under each renaming. With 1, it has two images under each renaming of all ranks so far. Above
// 1, it has all images under a renaming that has at most orbit of them.
func sample(gens []*Renaming, rep int32, orbit int) []int32 {
	out := []int32{rep}
	for _, g := range gens {
		from, steps := out, 2
		if orbit == 0 {
			from, steps = out[:1], 1
		}
		size := 1
		for r := g.Ranks[rep]; r != rep && size <= orbit; r = g.Ranks[r] {
			size++
		}
		if size <= orbit {
			steps = size - 1
		}
		for ; steps > 0; steps-- {
			next := make([]int32, len(from))
			for i, r := range from {
				next[i] = g.Ranks[r]
			}
			out = append(out[:len(out):len(out)], next...)
			from = next
		}
	}
	return out
}

// Within returns the plan folded by the renamings that keep approves of, for example the ones that keep hosts
// together. They must form a group.
func (f *Folded) Within(keep func(ranks []int32) bool) *Folded {
	s := f.Symmetry.subgroup(keep)
	out := *f.Plan
	out.GPUs = append([]plan.GPU(nil), f.Plan.GPUs...)
	for _, r := range s.Representatives() {
		out.GPUs[r] = f.GPU(r)
	}
	return &Folded{Plan: &out, Symmetry: s}
}
