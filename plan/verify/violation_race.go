package verify

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goccl/goccl/plan"
)

// does returns the verb for a recorded access.
func (v *verifier) does(a *access, wrote bool) string {
	if a.at.block < 0 {
		return "uses"
	}
	return verb(wrote)
}

func verb(write bool) string {
	if write {
		return "writes"
	}
	return "reads"
}

// race reports that the walker's access conflicts with an earlier one that does not happen before it.
func (w *walker) race(a *access, wrote bool, does string, pl *plan.Place, part sub) error {
	v := w.v
	where := v.where(pl, part)
	e := v.violation(DataRace, "", v.event(a.at, v.does(a, wrote), where), v.event(w.at, does, where))
	e.Detail = "nothing makes the first come before the second" + w.lacks(a)
	e.Hint = w.hint(a)
	return e
}

// lacks describes how much of the other's program happens before the walker's access.
func (w *walker) lacks(a *access) string {
	v := w.v
	if w.at.block >= 0 && v.threadsKnow(v.blocks[w.at.block], a) {
		return ": single threads learned of it, but no nop tells the others before they go on"
	}
	switch {
	case a.at.block < 0 && w.at.block >= 0 && a.at.launch >= int32(w.b.launch) && int(a.at.pc) != w.b.rank:
		return fmt.Sprintf(": %s does not know that launch %d of rank %d has begun", v.title(w.b), w.b.launch+1, a.at.pc)
	case a.at.block == w.at.block && (a.comp == w.reads.comp || a.comp == w.writes.comp):
		return ": no nop lies between them, so they may be different threads"
	case a.at.block < 0 || int(a.comp) >= len(v.blocks):
		return ""
	}
	other := v.blocks[a.comp]
	n := w.covers(a.comp, true)
	name := v.title(other)
	if n == 0 {
		return ": nothing that " + name + " does is known there to be over"
	}
	if int(n) >= len(other.begins) {
		return ""
	}
	at := other.begins[n]
	e := v.event(at, "", nil)
	return fmt.Sprintf(": of %s, only what precedes op %d of launch %d is known there to be over", name, e.Pos.Op,
		e.Launch+1)
}

// threadsKnow reports whether a thread of b has received a clock that covers the access since all threads last
// synchronized.
func (v *verifier) threadsKnow(b *blockState, a *access) bool {
	for _, ks := range b.threads {
		if slices.ContainsFunc(ks, func(k *clock) bool { return k.visible(int(a.comp)) > a.t }) {
			return true
		}
	}
	return false
}

func (w *walker) hint(a *access) string {
	v := w.v
	switch {
	case w.at.block >= 0 && v.threadsKnow(v.blocks[w.at.block], a):
		return "a nop after the wait"
	case int(a.comp) < len(v.blocks) && a.t > 0 && w.covers(a.comp, true) == a.t && a.at.block != w.at.block:
		return "a nop there, between the access and the signal or release that follows it"
	case w.at.block < 0:
		return "an exit handshake: the other side signals when it is done, and this rank waits before it returns"
	case a.at.block < 0:
		return "an entry handshake: that rank signals (rlxsignal) when it has begun, and this thread block waits and then " +
			"meets (nop)"
	case a.at.block == w.at.block && int(a.comp) >= len(v.blocks):
		return "a flush and a nop before the source of a port transfer is used again"
	case a.at.block == w.at.block:
		return "a nop between the two"
	case v.hookOf(v.blocks[a.at.block]) > 0 && v.rankOf[a.at.block] == v.rankOf[w.at.block]:
		return "wait_hook and nop here, or a way from the thread block that waits for the hook"
	case w.at.block >= 0 && v.hookOf(v.blocks[w.at.block]) > 0:
		return "touch what a hook guards after wait_hook, or before signal_hook, only"
	case v.rankOf[a.at.block] == v.rankOf[w.at.block]:
		return "a barrier, or nop, sem_release there and sem_acquire, nop here"
	}
	return "nop, signal there and wait, nop here"
}

// noPacket reports that the packet that the walker reads is not from this launch.
func (w *walker) noPacket(c *cell, pl *plan.Place, part sub) error {
	v := w.v
	where := v.where(pl, part)
	if c.flag > int32(w.b.launch) {
		return v.violation(DataRace, "the packet is overwritten before it is read",
			v.event(w.at, "has yet to read the packet at", where), v.event(c.write.at, "writes", where))
	}
	return v.violation(DataRace, "the transfer does not look at flags: it takes whatever is there, and no packet of "+
		"this launch is known to be", v.event(w.at, "sends the packet at", where))
}

// rewritten reports a second packet at one place in one launch.
func (w *walker) rewritten(c *cell, pl *plan.Place, part sub) error {
	v := w.v
	where := v.where(pl, part)
	e := v.violation(DataRace, "a packet's place is written at most once per launch: its reader cannot tell the two apart",
		v.event(c.write.at, "writes the packet at", where), v.event(w.at, "writes again", where))
	if c.flag > int32(w.b.launch) {
		e.Detail = "the later launch came first"
	}
	return e
}

// late reports an access to scratch that another thread block already uses in a later launch.
func (w *walker) late(s *planeState, pl *plan.Place, part sub, write bool) error {
	v := w.v
	var events []Event
	for _, uses := range []map[int32]usage{s.now.writes, s.now.reads} {
		for _, u := range uses {
			if len(events) == 0 || v.before(&u.last.at, &events[0]) {
				events = []Event{v.event(u.last.at, "uses the scratch of rank "+fmt.Sprint(pl.Rank), nil)}
			}
		}
		if len(events) > 0 {
			break
		}
	}
	events = append(events, v.event(w.at, verb(write), v.where(pl, part)))
	return v.violation(DataRace, fmt.Sprintf("launch %d reaches this scratch while launch %d is still at work on it",
		s.launch+1, w.b.launch+1), events...)
}

// before orders events, so that messages do not depend on the order of a map.
func (v *verifier) before(a *event, e *Event) bool {
	p, q := v.event(*a, "", nil).Pos, e.Pos
	return cmp.Or(p.Rank-q.Rank, p.Block-q.Block, p.Op-q.Op) < 0
}

// reused reports an access to scratch that may overtake one of an earlier launch.
func (w *walker) reused(a *access, wrote, write bool, pl *plan.Place, part sub) error {
	v := w.v
	e := v.violation(DataRace, "", v.event(a.at, v.does(a, wrote)+" scratch of rank "+fmt.Sprint(pl.Rank), nil),
		v.event(w.at, verb(write), v.where(pl, part)))
	e.Detail = "the later launch reuses the scratch, and nothing makes the first come before the second" + w.lacks(a)
	if e.Hint = "an entry handshake with that rank"; !v.p.DoubleScratch {
		e.Hint += ", or use_double_scratch_buffer when every launch hears from every rank that reads its packets"
	}
	return e
}

// wrong reports a place with wrong contents at the end of a launch.
func (v *verifier) wrong(c *cell, pl *plan.Place, part sub, launch int, why string) error {
	where := v.where(pl, part)
	var events []Event
	if c.write.comp >= 0 && c.write.at.block >= 0 {
		events = append(events, v.event(c.write.at, "writes", where))
	}
	e := v.violation(WrongResult, why, events...)
	if why != "" {
		if len(events) == 0 {
			e.Detail = where.String() + ": " + why
		}
		return e
	}
	if late := v.stillToWrite(pl, part, launch); late != nil {
		e := v.violation(DataRace, fmt.Sprintf("nothing keeps launch %d of rank %d from ending before that", launch+1,
			pl.Rank), v.event(*late, "writes", where))
		e.Hint = "an exit handshake: the other side signals when it is done, and this rank waits before it returns"
		return e
	}
	d := v.wanted[pl.Rank][pl.Index]
	e.Detail = fmt.Sprintf("at the end of launch %d, %s\nmust hold %s\nand holds %s", launch+1, where,
		v.describeDemand(&d), v.values.describe(c.value, launch, v.p))
	if len(events) == 0 {
		e.Detail += ": no op writes it"
	}
	return e
}

func (v *verifier) describeDemand(d *demand) string {
	s := ""
	if len(d.Of) > 1 {
		s = "the reduction of "
	}
	var list []string
	for _, t := range d.Of {
		list = append(list, fmt.Sprintf("rank %d's %s", t.Rank, v.p.ChunkName(t.Index)))
	}
	return s + listed(list, len(list))
}

// stillToWrite finds an op that will write a place in the launch and has not done so yet.
func (v *verifier) stillToWrite(pl *plan.Place, part sub, launch int) *event {
	cell := v.cellAt(pl.Rank, pl.Plane, pl.Index, launch) + int(part.atom)
	for _, b := range v.blocks {
		if b.launch > launch || b.done {
			continue
		}
		from := b.pc
		if b.launch < launch {
			from = 0
		}
		program := b.programs[min(launch, len(b.programs)-1)]
		for pc := from; pc < len(program); pc++ {
			if v.writesCell(&program[pc], cell, launch) {
				return &event{int32(b.id), int32(pc), int32(launch)}
			}
		}
	}
	return nil
}
