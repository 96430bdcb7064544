package verify

import (
	"cmp"
	"fmt"

	"github.com/goccl/goccl/plan"
)

// run checks that signals and waits match, and executes all launches.
//
// A thread block runs until it must wait. It is then listed as a waiter of the counter, barrier or packet, which puts
// it back into the queue. The order of the queue does not matter (see counter); it is first in, first out.
func (v *verifier) run() error {
	if err := cmp.Or(v.barrierUsers(), v.balance()); err != nil {
		return err
	}
	for r := range v.p.GPUs {
		if !v.quotient.own(r) {
			continue
		}
		if err := v.turn(r, v.newClock()); err != nil {
			return err
		}
	}
	for {
		for len(v.queue) > 0 {
			id := v.queue[0]
			v.queue = v.queue[1:]
			v.queued[id] = false
			if err := v.resume(v.blocks[id]); err != nil {
				return err
			}
		}
		if on, err := v.tick(); err != nil {
			return err
		} else if !on {
			break
		}
	}
	for _, b := range v.blocks {
		if !b.done {
			return v.deadlock()
		}
	}
	return v.gate.steady(v)
}

// resume runs b until it waits or its launch ends.
func (v *verifier) resume(b *blockState) error {
	for !b.ended && !b.done {
		if b.pc == len(b.program) {
			return v.end(b)
		}
		u := &b.program[b.pc]
		if v.gate.stops(b, u) {
			return nil
		}
		on, err := v.step(b, u)
		if err != nil || !on {
			return err
		}
		b.entry = b.entry && u.step.Kind.Opens()
		b.pc++
	}
	return nil
}

// step executes one op. It returns false when the op must wait; then it has only listed b as a waiter, or arrived at
// the barrier.
func (v *verifier) step(b *blockState, u *unit) (bool, error) {
	s := u.step
	switch {
	case s.Does.Has(plan.Meets):
		v.syncAll(b)
		return true, nil
	case s.Does.Has(plan.Joins):
		return v.meet(b, v.barriers[[2]int{b.rank, s.Op.BarrierID}]), nil
	case s.Does.Has(plan.Moves):
		return v.data(b, u)
	case s.Does.Has(plan.Takes):
		return v.wait(b, s)
	}
	for thread := range s.Entries() {
		if err := v.publish(b, s, thread); err != nil {
			return false, err
		}
	}
	return true, nil
}

// publish adds to the counter of an entry, and flushes its channel, as far as the step does that.
func (v *verifier) publish(b *blockState, s *plan.Step, thread int) error {
	if s.Does.Has(plan.Adds) {
		at := v.counterOf(b.rank, s, thread, plan.Adds)
		if at < 0 {
			l := &v.links[v.link(b.rank, s.Op.ChannelType, s.Channels[thread])]
			return v.violation(Unbalanced, fmt.Sprintf("the signal goes nowhere: rank %d has no %s channel number %d to rank %d",
				l.Peer, l.Type, l.Nth, l.Rank), v.here(b, "signals"))
		}
		to, g := v.quotient.counter(at)
		v.arrive(v.quotient.mirror(g, b), to, v.quotient.clock(g, v.passes(b, s, thread)))
	}
	if s.Does.Has(plan.Flushes) {
		link := v.link(b.rank, plan.PortChannel, s.Channels[thread])
		b.threads[thread] = append(b.threads[thread], v.portClock(b, thread, link, false))
	}
	return nil
}

// passes returns the clock that an entry of a signal or release passes on.
func (v *verifier) passes(b *blockState, s *plan.Step, thread int) *clock {
	switch {
	case s.Kind.Semaphores:
		return v.threadClock(b, thread)
	case s.Kind.Relaxed() && b.entry:
		// The signal makes nothing of this launch visible: the peer learns only that this launch has begun.
		return v.began[b.rank]
	}
	return v.portClock(b, thread, v.link(b.rank, s.Op.ChannelType, s.Channels[thread]), true)
}

// wait passes the counters of a step, all or none: a counter that is open stays open.
func (v *verifier) wait(b *blockState, s *plan.Step) (bool, error) {
	for i := range s.Entries() {
		if at := v.counterOf(b.rank, s, i, plan.Takes); !v.open(b, at) {
			v.counters[at].wake = append(v.counters[at].wake, b.id)
			return false, nil
		}
	}
	for i := range s.Entries() {
		at := v.counterOf(b.rank, s, i, plan.Takes)
		if !v.open(b, at) { // the op waits twice on one counter
			return false, v.unordered(b, at)
		}
		if err := v.consume(b, i, at); err != nil {
			return false, err
		}
	}
	return true, nil
}

// meet is a barrier among thread blocks: each arrives when all its threads have synchronized; when all blocks have
// arrived, their clocks are joined.
func (v *verifier) meet(b *blockState, bar *barrier) bool {
	if b.arrived {
		b.arrived = false
		return true
	}
	if b.meeting {
		return false
	}
	v.syncAll(b)
	b.meeting = true
	bar.arrived = append(bar.arrived, b.id)
	if len(bar.arrived) < bar.size {
		return false
	}
	k := v.share(v.blocks[bar.arrived[0]]).mutable()
	for _, id := range bar.arrived[1:] {
		k.learn(v.share(v.blocks[id]))
	}
	for _, id := range bar.arrived {
		o := v.blocks[id]
		o.base, o.shared, o.meeting = k, nil, false
		if o != b {
			o.arrived = true
			v.ready(id)
		}
	}
	bar.arrived = bar.arrived[:0]
	return true
}

// data executes an op that moves bytes.
func (v *verifier) data(b *blockState, u *unit) (bool, error) {
	s := u.step
	if _, _, at := v.missing(b, u); at >= 0 {
		v.waiting[at] = append(v.waiting[at], b.id)
		return false, nil
	}
	for i := range s.Moves {
		m := &s.Moves[i]
		w := walker{v: v, b: b, at: event{int32(b.id), int32(b.pc), int32(b.launch)}, know: b.base,
			reads: stamp{int32(b.id), b.phase}, self: int32(b.id), port: s.Op.ChannelType == plan.PortChannel}
		w.writes = w.reads
		if m.Entry >= 0 {
			link := v.link(b.rank, plan.PortChannel, s.Channels[m.Entry])
			i := v.portOf[[2]int{b.id, link}]
			pt := &v.ports[i]
			w.thread = int32(m.Entry)
			w.know = v.portClock(b, m.Entry, link, true)
			w.reads = stamp{int32(v.reader(i)), uint32(len(pt.pushes))}
			w.writes = stamp{int32(v.writer(i)), uint32(len(pt.pushes))}
			pt.pushes = append(pt.pushes, push{b.phase, m.Entry})
		}
		v.inst = (v.inst | 63) + 1
		parts := u.parts[i]
		if v.second.dry {
			parts = nil
		}
		for _, part := range parts {
			w.inst = v.inst * int64(v.quotient.order())
			v.inst++
			if err := w.move(s.Op.ReduceOp, m, part); err != nil {
				return false, err
			}
		}
		if s.Hook > 0 && len(m.Dst) == 0 {
			if err := v.delivered(b, m, parts); err != nil {
				return false, err
			}
		}
		if m.Entry >= 0 {
			if err := v.publish(b, s, m.Entry); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// missing returns the first packet that u reads and that has not arrived in b's launch: a place, an atom of one of its
// chunks, and the cell, or -1. Raw packets are not awaited: the bytes are copied as they are.
func (v *verifier) missing(b *blockState, u *unit) (src *plan.Place, part sub, cell int) {
	for i := range u.step.Moves {
		for k := range u.step.Moves[i].Src {
			src := &u.step.Moves[i].Src[k]
			if src.Plane != plan.PacketPlane || u.step.Raw {
				continue
			}
			for _, part := range u.parts[i] {
				if at := v.cellOf(src, part, b.launch); v.cells[at].flag < int32(b.launch) {
					return src, part, at
				}
			}
		}
	}
	return nil, sub{}, -1
}

// end ends b's program in this launch, where its threads synchronize for the last time. The last thread block of a rank
// passes control to the caller. The clocks of the blocks are joined there, once, and not in each block.
func (v *verifier) end(b *blockState) error {
	b.nextPhase()
	b.ended = true
	v.running[b.rank]--
	if v.running[b.rank] > 0 {
		return nil
	}
	return v.finish(b.rank)
}

// finish ends the launch of a rank. All its thread blocks have completed, and its transfers have left their sources: an
// executor flushes its port channels before a launch ends, because the caller may reuse the source.
func (v *verifier) finish(rank int) error {
	k := v.began[rank].mutable()
	seen := map[*clock]bool{v.began[rank]: true}
	fresh := func(o *clock) bool {
		known := seen[o]
		seen[o] = true
		return !known
	}
	for id := v.first[rank]; id < v.first[rank+1]; id++ {
		b := v.blocks[id]
		if fresh(b.base) {
			k.learn(b.base)
		}
		for _, thread := range b.threads {
			for _, o := range thread {
				if fresh(o) {
					k.learn(o)
				}
			}
		}
		k.set(id, b.phase)
	}
	for id := v.first[rank]; id < v.first[rank+1]; id++ { // k is nearly complete now, so packets add little
		for _, o := range v.blocks[id].packets {
			if fresh(o) {
				k.learnControl(o)
			}
		}
		k.prove(v.blocks[id].pending)
		v.blocks[id].forget()
	}
	k.settle()
	for i := range v.ports {
		if v.rankOf[v.ports[i].block] == rank {
			k.set(v.reader(i), uint32(len(v.ports[i].pushes)))
		}
	}
	if err := v.checkResult(rank); err != nil && !v.second.dry {
		return err
	}
	if v.shape.loops.used {
		v.gate.turns = append(v.gate.turns, turn{rank, k})
		return nil
	}
	return v.turn(rank, k)
}

// turn lets the caller of a rank use the buffers, then begins the next launch with clock k.
func (v *verifier) turn(rank int, k *clock) error {
	for {
		if err := v.callerUse(rank, k); err != nil {
			return err
		}
		n := v.launched[rank]
		k.set(v.caller+rank, uint32(n)+1)
		k.owner, k.phase = v.caller+rank, uint32(n)+1
		v.began[rank] = k
		first, last := v.first[rank], v.first[rank+1]
		if n == v.report.Launches {
			for id := first; id < last; id++ {
				v.blocks[id].done = true
			}
			return nil
		}
		v.launched[rank]++
		if v.running[rank] = last - first; first < last {
			for id := first; id < last; id++ {
				v.blocks[id].begin(n, k)
				v.ready(id)
			}
			return nil
		}
		k = k.mutable() // a rank without thread blocks
		if err := v.checkResult(rank); err != nil {
			return err
		}
	}
}

func (b *blockState) begin(launch int, k *clock) {
	b.launch, b.pc, b.ended, b.entry = launch, 0, false, true
	b.program, b.grant = b.programs[launch], -1
	b.base, b.shared = k, nil
	if k.visible(b.id) == b.phase {
		b.shared = k
	}
	start := event{int32(b.id), 0, int32(launch)}
	if len(b.begins) == 0 {
		b.begins = append(b.begins, start)
	} else {
		b.begins[len(b.begins)-1] = start // the end of the last launch began this phase
	}
}
