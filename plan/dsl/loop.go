package dsl

// LoopIterationContext is a pipeline: the operations inside run over slices of unit bytes of their chunks, over
// numChunks chunks in all.
type LoopIterationContext struct{ l *loop }

// BeginLoop opens a pipeline. Every operation until EndLoop belongs to it, in each thread block separately. Pipelines
// do not nest.
func (p *CollectiveProgram) BeginLoop(unit uint64, numChunks int) *LoopIterationContext {
	pos := p.position()
	if p.loop != nil {
		p.fail(pos, ErrUsage, "close the first with EndLoop", "a pipeline inside the pipeline of %v", p.loop.pos)
	}
	if unit == 0 || numChunks <= 0 {
		p.fail(pos, ErrRange, "", "pipeline of %d chunks in units of %d bytes", numChunks, unit)
	}
	if a := uint64(max(1, p.spec.BufferAlignment)); unit%a != 0 {
		p.fail(pos, ErrRange, "use a multiple", "pipeline unit of %d bytes, alignment %d", unit, a)
	}
	p.loops++
	p.loop = &loop{index: p.loops, unit: unit, numChunks: numChunks, pos: pos}
	return &LoopIterationContext{l: p.loop}
}

// EndLoop closes the pipeline.
func (p *CollectiveProgram) EndLoop() {
	if p.loop == nil {
		p.fail(p.position(), ErrUsage, "", "EndLoop without BeginLoop")
	}
	p.loop = nil
}

// Loop runs body inside a pipeline.
func (p *CollectiveProgram) Loop(unit uint64, numChunks int, body func()) {
	p.BeginLoop(unit, numChunks)
	defer p.EndLoop()
	body()
}
