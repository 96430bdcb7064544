package interp

import "github.com/goccl/goccl/plan"

// block is a thread block, or the work of the caller at a hook: its ops, with pipelines unrolled, and threads that each
// run all of them.
type block struct {
	m       *machine
	r       *rankState
	index   int
	steps   []plan.Step
	program []instruction // of the running launch
	threads []*thread
}

type instruction struct {
	step *plan.Step
	iter int
	unit int64 // of the pipeline; 0 outside
}

// thread is a thread of a block. met counts the block's synchronizations that it has joined; a thread that synchronizes
// waits until all threads have the same count.
type thread struct {
	b      *block
	index  int
	actor  int
	pc     int
	stage  int // within the op
	met    int
	work   []piece // the rest of a data op
	target int     // of a flush: transfers to wait for
	active bool    // work or target belong to the op at pc
	uses   map[int]int
}

func newBlock(m *machine, r *rankState, index int, steps []plan.Step) *block {
	b := &block{m: m, r: r, index: index, steps: steps}
	for i := range m.cfg.Threads {
		b.threads = append(b.threads, &thread{b: b, index: i, uses: map[int]int{}})
	}
	return b
}

func (b *block) running() bool { return b.r.launch >= 0 && b.r.launch < len(b.m.cfg.Sizes) }

// begin unrolls the program for the launch that the rank begins.
func (b *block) begin() {
	layout := b.m.layouts[b.r.launch]
	b.program = b.program[:0]
	for i := range b.steps {
		s := &b.steps[i]
		if !s.Does.Has(plan.Loops) {
			b.program = append(b.program, instruction{step: s})
			continue
		}
		for iter := range int(layout.Iterations(s.Op)) {
			for j := range s.Body {
				b.program = append(b.program, instruction{step: &s.Body[j], iter: iter, unit: s.Op.UnitSize})
			}
		}
	}
	for _, l := range b.threads {
		l.pc, l.stage, l.active = 0, 0, false
	}
}

func (b *block) done() bool {
	if !b.running() {
		return true
	}
	for _, l := range b.threads {
		if l.pc < len(b.program) {
			return false
		}
	}
	return true
}

// meet makes one attempt to synchronize with the other threads: to arrive is one step, to leave is another.
func (l *thread) meet() bool {
	if l.stage&1 == 0 {
		l.met++
		l.stage++
		l.b.m.trace.arrive(point{meetingAt, l.b.r.rank, l.b.index, l.met})
		return false
	}
	for _, o := range l.b.threads {
		if o.met < l.met {
			return false
		}
	}
	l.b.m.trace.learn(point{meetingAt, l.b.r.rank, l.b.index, l.met})
	l.stage++
	return true
}

// mine returns the entries that this thread serves.
func (l *thread) mine(n int) []int {
	var out []int
	for e := l.index; e < n; e += l.b.m.cfg.Threads {
		out = append(out, e)
	}
	return out
}

// step makes one small step of the op at pc. It reports whether there was progress; otherwise nothing has changed.
func (l *thread) step() (bool, error) {
	b := l.b
	if !b.running() || l.pc >= len(b.program) {
		return false, nil
	}
	in := &b.program[l.pc]
	before := *l
	done, on := l.op(in)
	if done {
		l.pc++
		l.stage, l.active = 0, false
		return true, nil
	}
	return on || before.stage != l.stage, nil
}

// op tries the op. done: the op is complete for this thread; on: there was progress.
func (l *thread) op(in *instruction) (done, on bool) {
	s := in.step
	switch {
	case s.Does.Has(plan.Meets):
		return l.meet(), false
	case s.Does.Has(plan.Joins):
		return l.barrier(s.Op), false
	case s.Does.Has(plan.Moves) && s.Op.ChannelType == plan.PortChannel:
		return l.port(in)
	case s.Does.Has(plan.Moves):
		return l.data(in)
	case s.Does.Has(plan.Takes):
		return l.serve(s.Entries(), func(e int) bool { return l.take(s, e) })
	case s.Does.Has(plan.Adds):
		return l.serve(s.Entries(), func(e int) bool { l.add(s, e); return true })
	}
	mine := l.mine(len(s.Channels))
	if l.stage == len(mine) {
		return true, true
	}
	ok, on := l.flushed(l.queue(s, mine[l.stage]))
	if ok {
		l.stage++
	}
	return l.stage == len(mine), on
}

// take consumes one from the counter of entry e of a step, if it is positive.
func (l *thread) take(s *plan.Step, e int) bool {
	m, r := l.b.m, l.b.r
	if s.Kind.Semaphores {
		id := s.Op.SemaphoreIDs[e]
		if r.semaphores[id] == 0 {
			return false
		}
		r.semaphores[id]--
		m.trace.acquire(r.rank, id)
		return true
	}
	i := m.links.Index(r.rank, s.Op.ChannelType, s.Channels[e])
	if m.counts[i] <= m.waited[i] {
		return false
	}
	m.trace.touch(object{kind: waitsOf, a: i})
	m.trace.learn(point{signalAt, i, 0, m.waited[i]})
	m.waited[i]++
	return true
}

// add increments the counter of entry e of a step. A signal on a port channel follows the transfers.
func (l *thread) add(s *plan.Step, e int) {
	m, r := l.b.m, l.b.r
	if s.Kind.Semaphores {
		r.semaphores[s.Op.SemaphoreIDs[e]]++
		m.trace.release(r.rank, s.Op.SemaphoreIDs[e])
		return
	}
	link := m.links.Index(r.rank, s.Op.ChannelType, s.Channels[e])
	if q := m.queues[link]; q != nil {
		q.push(func() bool { q.send(func() { m.arrive(link) }); return true })
		return
	}
	m.arrive(link)
}

// queue returns the port channel of entry e of a step.
func (l *thread) queue(s *plan.Step, e int) *portQueue {
	return l.b.m.queues[l.b.m.links.Index(l.b.r.rank, plan.PortChannel, s.Channels[e])]
}

// serve handles the entries of this thread in order, one in each step. stage counts the completed ones.
func (l *thread) serve(n int, try func(e int) bool) (done, on bool) {
	mine := l.mine(n)
	if l.stage < len(mine) && try(mine[l.stage]) {
		l.stage++
		on = true
	}
	return l.stage == len(mine), on
}

// barrier: all threads synchronize, thread 0 counts the block in, and all threads wait until all blocks are counted
// equally often.
func (l *thread) barrier(op *plan.Op) bool {
	tr, r := l.b.m.trace, l.b.r
	if l.stage < 2 && !l.meet() {
		return false
	}
	if l.stage == 2 {
		l.uses[op.BarrierID]++
		if l.index == 0 {
			tr.arrive(point{barrierAt, r.rank, op.BarrierID, r.barriers[op.BarrierID] / op.NumThreadBlocks})
			r.barriers[op.BarrierID]++
		}
		l.stage = 3
		return false
	}
	if r.barriers[op.BarrierID] < l.uses[op.BarrierID]*op.NumThreadBlocks {
		return false
	}
	tr.learn(point{barrierAt, r.rank, op.BarrierID, l.uses[op.BarrierID] - 1})
	return true
}

func (m *machine) arrive(link int) {
	if pair := m.links.All[link].Pair; pair >= 0 {
		m.trace.touch(object{kind: signalsOf, a: pair})
		m.trace.arrive(point{signalAt, pair, 0, m.counts[pair]})
		m.counts[pair]++
	}
}

// hide puts junk where hooks guard input: a plan that reads it too early sees it.
func (r *rankState) hide(l *plan.Layout) {
	hooks := r.m.p.GPUs[r.rank].Hooks()
	if len(hooks) == 0 {
		return
	}
	r.fresh = append(r.fresh[:0], r.input...)
	for i := range hooks {
		h := &hooks[i]
		for k := h.Index; h.Takes() && k < h.Index+h.Size; k++ {
			at, n := l.Locate(k, 0)
			for x := range r.input[at : at+n] {
				r.input[at+int64(x)] = 0x5a
			}
		}
	}
}

// caller is a step of the caller at a hook: it writes a piece of input, or reads one of output.
func (m *machine) caller(p piece, launch int) {
	src := &p.move.Src[0]
	l, r := m.layouts[launch], m.ranks[src.Rank]
	at, n := l.Locate(src.Index+p.j, p.x)
	n = min(n, l.Alignment)
	if len(p.move.Dst) == 0 {
		m.bytes(src, p, launch, n, false)
		return
	}
	copy(m.bytes(&p.move.Dst[0], p, launch, n, true), r.fresh[at:at+n])
}
