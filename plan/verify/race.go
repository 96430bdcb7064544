package verify

import (
	"fmt"
	"slices"

	"github.com/goccl/goccl/plan"
)

// walker executes a move at one offset. All accesses at one offset are made by one thread.
type walker struct {
	v      *verifier
	b      *blockState
	at     event
	know   *clock
	reads  stamp // of its reads
	writes stamp // of its writes; a transfer writes later than it reads
	self   int32 // the thread block's component, -1 for a caller
	frame  int32 // of a quotient: the element under which the thread block is seen
	inst   int64
	thread int32 // for a transfer: the thread that pushes it
	port   bool  // the transfer goes over a port channel

	from    movements // proofs of the packets consumed at this offset
	carried *clock    // the clock that these packets carry
	made    movements // proof of the packets written at this offset
}

func (w *walker) move(op plan.ReduceOp, m *plan.Move, part sub) error {
	v := w.v
	var value int32
	w.from, w.made, w.carried = nil, nil, nil
	for i := range m.Src {
		id, carries, err := w.readAt(&m.Src[i], part)
		if err != nil {
			return err
		}
		if len(m.Src) > 1 && v.values.nodes[id].terms > 1 {
			v.report.Once = false
		}
		if i == 0 {
			value = id
		} else {
			value = v.values.combine(value, id, op)
		}
		if carries != nil {
			w.carried = v.forward(w.carried, carries)
		}
	}
	if m.Bound != nil {
		if err := w.bounded(m, part, value); err != nil {
			return err
		}
	}
	for i := range m.Dst {
		if err := w.writeAt(&m.Dst[i], part, value); err != nil {
			return err
		}
	}
	return nil
}

// readAt is the read of a source, of whatever rank.
func (w *walker) readAt(pl *plan.Place, part sub) (int32, *clock, error) {
	q := w.v.quotient
	if q == nil || pl.Rank == w.b.rank {
		return w.read(pl, part)
	}
	x, home, sub := q.visit(w, pl, part)
	id, carries, err := x.read(&home, sub)
	back := q.Frame(pl.Rank)
	return w.v.values.image(back, id), q.clock(back, carries), err
}

// writeAt is the write to a destination, of whatever rank.
func (w *walker) writeAt(pl *plan.Place, part sub, value int32) error {
	q := w.v.quotient
	if q == nil || pl.Rank == w.b.rank {
		return w.write(pl, part, value)
	}
	x, home, sub := q.visit(w, pl, part)
	return x.write(&home, sub, w.v.values.image(x.frame, value))
}

// forward joins the clocks of two packets. Usually they are the same.
func (v *verifier) forward(a, b *clock) *clock {
	if a == nil || a == b {
		return b
	}
	key := [2]*clock{a, b}
	if k, ok := v.joined[key]; ok {
		return k
	}
	k := a.mutable()
	k.learnControl(b)
	v.joined[key] = k
	return k
}

// bounded checks that a move that is limited by a count moves what that count is of. Then a byte that the count lets
// exist takes the same way whatever the counts are.
func (w *walker) bounded(m *plan.Move, part sub, value int32) error {
	b, v := m.Bound, w.v
	want := leaf{int32(w.b.launch), int32(b.Src), int32(b.Dst*v.period + b.Index + int(part.chunk))}
	if got := v.values.terms(value, 2); len(got) == 1 && got[0] == want {
		return nil
	}
	e := v.violation(WrongResult, "", v.event(w.at, "moves", v.where(&m.Src[0], part)))
	e.Detail = fmt.Sprintf("it holds %s; the op is limited by the count of what rank %d sends to rank %d, chunk %d",
		v.values.describe(value, w.b.launch, v.p), b.Src, b.Dst, b.Index+int(part.chunk))
	e.Hint = "name the ranks whose block the op moves, or do not limit it"
	return e
}

// known reports whether an access happens before the walker's and, with visible, is visible to it.
func (w *walker) known(s stamp, visible bool) bool {
	return s.comp < 0 || s.comp == w.self && s.t < w.b.phase || w.covers(s.comp, visible) > s.t
}

// covers returns how many phases of a component the walker knows to be completed, or to be visible. Both the component
// and the phases are as the rank that it visits sees them; its clock is as its own rank sees it.
func (w *walker) covers(comp int32, visible bool) uint32 { return w.coveredBy(w.know, comp, visible) }

func (w *walker) coveredBy(k *clock, comp int32, visible bool) uint32 {
	slot := k.t.slot(int(comp))
	if w.frame != 0 {
		slot = k.t.imageOf(w.v.quotient.Group, w.frame, slot)
	}
	if visible {
		return k.t.get(k.d, slot)
	}
	return k.t.get(k.c, slot)
}

// read is the access to a source at one offset. It returns the value and, for a packet, the clock that it carries.
func (w *walker) read(pl *plan.Place, part sub) (int32, *clock, error) {
	v := w.v
	at := v.cellOf(pl, part, w.b.launch)
	c := &v.cells[at]
	if pl.Plane >= plan.ScratchPlane {
		if err := w.enter(pl, part, false); err != nil {
			return 0, nil, err
		}
	}
	var carries *clock
	if pl.Plane == plan.PacketPlane {
		switch {
		case c.flag != int32(w.b.launch):
			return 0, nil, w.noPacket(c, pl, part)
		case w.port && w.b.program[w.b.pc].step.Raw && !w.known(c.write.stamp, true):
			return 0, nil, w.race(&c.write, true, "reads", pl, part)
		}
		c.read = true
		carries = c.carries
		if v.shape.present != nil || v.shape.atoms[part.atom].always {
			w.b.gather(carries)
		}
		if len(c.proof) > 0 {
			w.from = w.from.union(c.proof)
			w.b.pending = append(w.b.pending, c.proof)
		}
	} else if c.write.inst != w.inst && !w.known(c.write.stamp, true) {
		return 0, nil, w.race(&c.write, true, "reads", pl, part)
	}
	w.record(c)
	return c.value, carries, nil
}

// record adds a read to a cell, and drops reads that are ordered before it: whatever is ordered after this read is
// ordered after those. All reads of one phase stay: a write may be ordered after some of them by the packets that they
// produced (origin), which do not order it after the others.
func (w *walker) record(c *cell) {
	c.reads = append(slices.DeleteFunc(c.reads, func(r access) bool { return w.known(r.stamp, false) }),
		access{w.reads, w.at, w.inst})
}

// gather keeps the clock of a packet until all threads synchronize.
func (b *blockState) gather(k *clock) {
	if k == nil || k.owner >= 0 && b.base.completed(k.owner) >= k.phase ||
		slices.Contains(b.packets[max(0, len(b.packets)-4):], k) {
		return
	}
	b.packets = append(b.packets, k)
}

// write is the access to a destination at one offset.
func (w *walker) write(pl *plan.Place, part sub, value int32) error {
	v := w.v
	at := v.cellOf(pl, part, w.b.launch)
	c := &v.cells[at]
	if pl.Plane >= plan.ScratchPlane {
		if err := w.enter(pl, part, true); err != nil {
			return err
		}
	}
	if pl.Plane == plan.PacketPlane {
		carries := w.know
		if !w.port {
			carries = v.share(w.b)
		}
		carries = v.quotient.clock(w.frame, carries)
		if w.carried != nil {
			carries = v.forward(carries, v.quotient.clock(w.frame, w.carried))
		}
		if c.flag >= int32(w.b.launch) {
			if c.flag > int32(w.b.launch) || c.value != value {
				return w.rewritten(c, pl, part)
			}
			if !w.repeats(c, carries) && !v.second.mute[at] {
				v.second.mute[at], v.second.needed = true, true
			}
			v.repeated[at] = append(v.repeated[at], c.write, access{w.writes, w.at, w.inst})
			return nil
		}
		if err := w.replaces(c, at, pl, part); err != nil {
			return err
		}
		c.flag, c.read, c.carries = int32(w.b.launch), false, carries
		c.proof = w.proof()
		if v.second.mute[at] {
			c.carries, c.proof = nil, nil
		}
		for _, id := range v.waiting[at] {
			v.ready(id)
		}
		delete(v.waiting, at)
	} else {
		if c.write.inst != w.inst && !w.known(c.write.stamp, true) {
			return w.race(&c.write, true, "writes", pl, part)
		}
		v.shortChunks(pl, pl.Index+int(part.chunk), value)
	}
	for i := range c.reads {
		if r := &c.reads[i]; r.inst != w.inst && !w.over(r) {
			return w.race(r, false, "writes", pl, part)
		}
	}
	c.reads = c.reads[:0]
	c.write = access{w.writes, w.at, w.inst}
	c.value = value
	return nil
}

// shortChunks sets EvenOnly when a value of one place in the message is stored at another, which may be shorter.
func (v *verifier) shortChunks(pl *plan.Place, chunk int, value int32) {
	if n := &v.values.nodes[value]; pl.Plane <= plan.OutputPlane && n.terms > 0 && n.place != int32(chunk%v.period) {
		v.report.EvenOnly = true
	}
}

// enter checks an access to scratch before all else. Launches of different sizes divide scratch differently, so
// accesses of different launches to one half of one plane conflict wherever they fall: the earlier launch's accesses
// must all happen before.
func (w *walker) enter(pl *plan.Place, part sub, write bool) error {
	v := w.v
	if v.shape.fixed {
		return nil // the cells show all conflicts
	}
	s := v.planeState(pl.Rank, pl.Plane, w.b.launch)
	launch := int32(w.b.launch)
	switch {
	case launch < s.launch:
		return w.late(s, pl, part, write)
	case launch > s.launch:
		s.before, s.now = s.now, planeUse{reads: map[int32]usage{}, writes: map[int32]usage{}}
		if pl.Plane == plan.PacketPlane {
			s.before.writes = v.unread(pl.Rank, int(s.launch))
		}
		s.launch = launch
	}
	here, uses := access{w.reads, w.at, w.inst}, s.now.reads
	if write {
		here.stamp, uses = w.writes, s.now.writes
	}
	if pl.Plane == plan.PacketPlane && !write {
		v.note(uses, here, false) // a check of a flag conflicts with no other access
		return nil
	}
	who := [2]int32{w.writes.comp, w.thread}
	if s.checked[who] != launch+1 {
		a, all, found := w.unknown(s.before.writes, pl.Plane != plan.PacketPlane)
		if found {
			return w.reused(&a, true, write, pl, part)
		}
		if write {
			a, every, found := w.unknown(s.before.reads, false)
			if found {
				return w.reused(&a, false, write, pl, part)
			}
			if all && every {
				s.checked[who] = launch + 1
			}
		}
	}
	v.note(uses, here, write)
	return nil
}

// unknown returns the last access of the first component whose accesses do not all happen before the walker's. Without
// one, all says whether every thread of the block knows that.
func (w *walker) unknown(uses map[int32]usage, visible bool) (first access, all, found bool) {
	all = true
	for _, u := range uses {
		if w.ends(&u, visible, false) {
			continue
		}
		if all = false; !w.ends(&u, visible, true) && (!found || u.last.comp < first.comp) {
			first, found = u.last, true
		}
	}
	return first, all, found
}

// callerUse is the turn of a rank's caller, with clock k: it reads the buffers and writes new input.
func (v *verifier) callerUse(rank int, k *clock) error {
	turn := v.launched[rank]
	w := walker{v: v, b: &blockState{id: -1, rank: rank, launch: turn}, know: k, self: -1,
		at: event{-1, int32(rank), int32(turn)}}
	self := access{stamp{int32(v.caller + rank), uint32(turn)}, w.at, 0}
	atoms := len(v.shape.atoms)
	for pl := plan.InputPlane; pl <= plan.OutputPlane; pl++ {
		for chunk := range v.chunks[rank][pl] {
			for i := range atoms {
				c := &v.cells[v.planes[rank][pl]+chunk*atoms+i]
				place, part := plan.Place{Rank: rank, Plane: pl, Index: chunk, Size: 1}, sub{0, int32(i)}
				if !w.known(c.write.stamp, true) {
					return w.race(&c.write, true, "uses", &place, part)
				}
				for j := range c.reads {
					if !w.over(&c.reads[j]) {
						return w.race(&c.reads[j], false, "uses", &place, part)
					}
				}
				*c = cell{write: self, flag: -1}
			}
		}
	}
	for k := range v.p.ChunkCount(rank, plan.Input) {
		at := v.cellAt(rank, plan.InputPlane, k, turn)
		value := v.values.input(leaf{int32(turn), int32(rank), int32(k)}, v.period)
		for i := range atoms {
			v.cells[at+i].value = value
		}
	}
	return nil
}
