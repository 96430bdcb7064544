package plan

// coarsen returns a plan in which chunks that every op moves together are one chunk, or nil when there are none. It is
// right if and only if p is: an op never changes the offset of a byte in its operands, so the chunks of such a run are
// independent copies of one plan (docs/verifier.md, "Runs of chunks").
//
// A run may not cross the end of a block, because what belongs to a rank begins there. Runs are the same on all ranks.
// Slices and windows of loops cut operands at bytes that depend on the number of chunks, so their operands stay as they
// are. A plan with hooks or counts stays as it is.
func coarsen(p *Plan) *coarse {
	if !p.Collective.Known() || p.Hooked() || p.Counted() {
		return nil
	}
	_, period, _ := p.blocks()
	c := &coarse{period: period, message: newRuns(period)}
	scratch := 0
	for r := range p.GPUs {
		scratch = max(scratch, p.GPUs[r].ScratchChunks)
	}
	c.scratch = newRuns(scratch)
	for changed := true; changed; {
		changed = false
		p.eachMove(func(s *Step, m *Move, loop bool) {
			if c.cut(m, loop || s.Op.Slice.Count > 1) {
				changed = true
			}
		})
	}
	c.message.number()
	c.scratch.number()
	if c.message.count == period && c.scratch.count == scratch {
		return nil
	}
	c.write(p)
	return c
}

// coarse is a coarsened plan, and the runs of chunks of the one that it is made of.
type coarse struct {
	*Plan
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

// eachMove visits the movements of all ranks.
func (p *Plan) eachMove(visit func(s *Step, m *Move, loop bool)) {
	for r := range p.GPUs {
		for b := range p.GPUs[r].ThreadBlocks {
			steps := p.Program(r, b)
			for i := range steps {
				for j := range steps[i].Moves {
					visit(&steps[i], &steps[i].Moves[j], false)
				}
				for k := range steps[i].Body {
					for j := range steps[i].Body[k].Moves {
						visit(&steps[i].Body[k], &steps[i].Body[k].Moves[j], true)
					}
				}
			}
		}
	}
}

// at returns the runs of a plane, and the position of a chunk in them.
func (c *coarse) at(pl Plane, chunk int) (*runs, int) {
	if pl >= ScratchPlane {
		return c.scratch, chunk
	}
	return c.message, chunk % c.period
}

// cut makes the runs of all operands of a movement alike, or with all runs of one chunk. It reports a change.
func (c *coarse) cut(m *Move, all bool) (changed bool) {
	operands := append(append([]Place(nil), m.Src...), m.Dst...)
	set := func(pl *Place, x int) {
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
func (c *coarse) chunk(pl Plane, k int) int {
	if pl >= ScratchPlane {
		return c.scratch.index[k]
	}
	return k/c.period*c.message.count + c.message.index[k%c.period]
}

func (c *coarse) span(pl Plane, from, to int) (first, size int) {
	first = c.chunk(pl, from)
	return first, c.chunk(pl, to) - first
}

// write makes the plan.
func (c *coarse) write(p *Plan) {
	out := *p
	lo, hi, err := p.unitRange()
	blocks, _, _ := p.blocks()
	if unit := uint64(blocks) * uint64(c.message.count) * uint64(p.Alignment); err == nil {
		out.MinSize = uint64(lo) * unit
		if uint64(hi) < (1<<61)/unit {
			out.MaxSize = uint64(hi) * unit
		}
	}
	out.GPUs = make([]GPU, len(p.GPUs))
	for r := range p.GPUs {
		g := p.GPUs[r]
		g.InputChunks, g.OutputChunks = c.chunk(InputPlane, g.InputChunks), c.chunk(OutputPlane, g.OutputChunks)
		g.ScratchChunks = c.chunk(ScratchPlane, g.ScratchChunks)
		g.ThreadBlocks = make([]ThreadBlock, len(g.ThreadBlocks))
		for b := range g.ThreadBlocks {
			w := renumber{of: c.span, from: &p.GPUs[r], tb: &p.GPUs[r].ThreadBlocks[b], groups: p.GPUs[r].SwitchGroups()}
			g.ThreadBlocks[b] = *w.tb
			g.ThreadBlocks[b].Ops = w.ops(w.tb.Ops)
		}
		out.GPUs[r] = g
	}
	c.Plan = &out
}

// restore gives the places of a counterexample of the coarsened plan their own numbers: the first chunk of a run.
func (c *coarse) restore(v *Violation, p *Plan) {
	blocks, period, _ := p.blocks()
	for i := range v.Events {
		w := v.Events[i].Where
		if w == nil {
			continue
		}
		r, per := c.scratch, max(c.scratch.count, 1)
		if w.Place.Plane < ScratchPlane {
			r, per = c.message, c.message.count
		}
		block, run := w.Place.Index/per, w.Place.Index%per
		at := 0
		for r.index[at] != run {
			at++
		}
		chunk := w.Message / int64(blocks*c.message.count)
		l := Layout{Block: int64(period) * chunk, Chunk: chunk, Period: period}
		if w.Place.Index = at; w.Place.Plane < ScratchPlane {
			w.Place.Index += block * period
		}
		size := w.Hi - w.Lo
		w.Lo, _ = l.Locate(w.Place.Index, w.Lo%chunk)
		w.Hi, w.Message = w.Lo+size, l.Block*int64(blocks)
	}
}
