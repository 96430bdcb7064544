package symmetry

import "github.com/goccl/goccl/plan"

// Coarsen returns a plan in which chunks that every op moves together are one chunk, or nil when there are none. It is
// right if and only if p is: an op never changes the offset of a byte in its operands, so the chunks of such a run are
// independent copies of one plan (docs/verifier.md, "Runs of chunks").
//
// A run may not cross the end of a block, because what belongs to a rank begins there. Runs are the same on all ranks.
// Slices and windows of loops cut operands at bytes that depend on the number of chunks, so their operands stay as they
// are. A plan with hooks or counts stays as it is.
func Coarsen(p *plan.Plan) *Coarse {
	if !p.Collective.Known() || p.Hooked() || p.Counted() {
		return nil
	}
	_, period, _ := p.Blocks()
	c := &Coarse{period: period, message: newRuns(period)}
	scratch := 0
	for r := range p.GPUs {
		scratch = max(scratch, p.GPUs[r].ScratchChunks)
	}
	c.scratch = newRuns(scratch)
	for changed := true; changed; {
		changed = false
		for r := range p.GPUs {
			for b := range p.GPUs[r].ThreadBlocks {
				for s, m := range plan.EachMove(p.Program(r, b)) {
					changed = c.cut(m, cutsBytes(s)) || changed
				}
			}
		}
	}
	c.message.number()
	c.scratch.number()
	if c.message.count == period && c.scratch.count == scratch {
		return nil
	}
	c.write(p)
	return c
}

// Coarse is a coarsened plan, and the runs of chunks of the one that it is made of.
type Coarse struct {
	*plan.Plan
	period  int   // of the old plan
	message *runs // of a block
	scratch *runs
}

// runs divides chunks 0 to n-1.
type runs struct {
	start []bool // of a run, by chunk; and one past the last
	index []int  // of the run in which a chunk lies
	count int
}

func newRuns(n int) *runs {
	r := &runs{start: make([]bool, n+1)}
	r.start[0], r.start[n] = true, true
	return r
}

func (r *runs) number() {
	r.index = make([]int, len(r.start))
	for k := range r.start {
		if k > 0 {
			r.index[k] = r.index[k-1]
			if r.start[k] {
				r.index[k]++
			}
		}
	}
	r.count = r.index[len(r.start)-1]
}

// cutsBytes reports whether a step cuts its operands at bytes that depend on the number of chunks.
func cutsBytes(s *plan.Step) bool { return s.Pos.Inner >= 0 || s.Op.Slice.Count > 1 }

// at returns the runs of a plane, and the position of a chunk in them.
func (c *Coarse) at(pl plan.Plane, chunk int) (*runs, int) {
	if pl >= plan.ScratchPlane {
		return c.scratch, chunk
	}
	return c.message, chunk % c.period
}

// cut gives all operands of a movement the same runs; with all, runs of one chunk. It reports a change.
func (c *Coarse) cut(m *plan.Move, all bool) (changed bool) {
	operands := append(append([]plan.Place(nil), m.Src...), m.Dst...)
	set := func(pl *plan.Place, x int) {
		r, k := c.at(pl.Plane, pl.Index+x)
		if !r.start[k] {
			r.start[k], changed = true, true
		}
	}
	for x := range m.Dst[0].Size + 1 {
		here := all || x == 0 || x == m.Dst[0].Size
		for i := range operands {
			r, k := c.at(operands[i].Plane, operands[i].Index+x)
			here = here || r.start[k]
		}
		if here {
			for i := range operands {
				set(&operands[i], x)
			}
		}
	}
	return changed
}

// chunk returns the new number of a chunk that begins a run, or of the end of a buffer.
func (c *Coarse) chunk(pl plan.Plane, k int) int {
	if pl >= plan.ScratchPlane {
		return c.scratch.index[k]
	}
	return k/c.period*c.message.count + c.message.index[k%c.period]
}

func (c *Coarse) span(pl plan.Plane, from, to int) (first, size int) {
	first = c.chunk(pl, from)
	return first, c.chunk(pl, to) - first
}

// write makes the plan.
func (c *Coarse) write(p *plan.Plan) {
	out := *p
	lo, hi := p.UnitRange()
	blocks, _, _ := p.Blocks()
	if unit := uint64(blocks) * uint64(c.message.count) * uint64(p.Alignment); lo <= hi {
		out.MinSize = uint64(lo) * unit
		if uint64(hi) < (1<<61)/unit {
			out.MaxSize = uint64(hi) * unit
		}
	}
	out.GPUs = make([]plan.GPU, len(p.GPUs))
	for r := range p.GPUs {
		g := p.GPUs[r]
		g.InputChunks, g.OutputChunks = c.chunk(plan.InputPlane, g.InputChunks), c.chunk(plan.OutputPlane, g.OutputChunks)
		g.ScratchChunks = c.chunk(plan.ScratchPlane, g.ScratchChunks)
		g.ThreadBlocks = make([]plan.ThreadBlock, len(g.ThreadBlocks))
		for b := range g.ThreadBlocks {
			w := renumber{of: c.span, from: &p.GPUs[r], tb: &p.GPUs[r].ThreadBlocks[b], groups: p.GPUs[r].SwitchGroups()}
			g.ThreadBlocks[b] = *w.tb
			g.ThreadBlocks[b].Ops = w.ops(w.tb.Ops)
		}
		out.GPUs[r] = g
	}
	c.Plan = &out
}

// First returns the first chunk of the run that is chunk k of a plane of the coarsened plan.
func (c *Coarse) First(pl plan.Plane, k int) int {
	r, block := c.scratch, 0
	if pl < plan.ScratchPlane {
		r, block, k = c.message, k/c.message.count, k%c.message.count
	}
	for at := range r.start {
		if r.index[at] == k {
			return block*c.period + at
		}
	}
	return -1
}

// renumber writes the ops of a thread block with other chunk numbers. Tables keep their order, so channels and buffers
// keep their numbers.
type renumber struct {
	of     func(pl plan.Plane, from, to int) (first, size int)
	from   *plan.GPU
	tb     *plan.ThreadBlock
	groups []plan.SwitchGroup
}

func (u *renumber) ops(ops []plan.Op) []plan.Op {
	out := make([]plan.Op, len(ops))
	for i := range ops {
		out[i] = ops[i]
		out[i].Src, out[i].Dst = u.chunks(&ops[i], ops[i].Src), u.chunks(&ops[i], ops[i].Dst)
		if len(ops[i].Ops) > 0 {
			out[i].Ops = u.ops(ops[i].Ops)
		}
	}
	return out
}

func (u *renumber) chunks(op *plan.Op, list []plan.Chunk) []plan.Chunk {
	if list == nil {
		return nil
	}
	out := make([]plan.Chunk, len(list))
	for i, c := range list {
		t := u.from.BufferOf(u.tb, u.groups, op, &c)
		c.Index, c.Size = u.of(plan.PlaneOf(t, false), c.Index, c.Index+c.Size)
		out[i] = c
	}
	return out
}
