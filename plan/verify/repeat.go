package verify

import (
	"errors"

	"github.com/goccl/goccl/plan"
)

// errAgain ends a run that a second one replaces.
var errAgain = errors.New("run again")

// second is what the first run of a shape found and a second run must respect.
type second struct {
	needed    bool
	mute      map[int]bool // packet cells with several writers: a packet there brings its payload only
	shared    map[int]bool // counters with unordered consumers
	ambiguity error        // the first of these; also the reason why the plan is wrong if the second run fails
}

// repeats reports whether a second packet with the bytes of the first tells its reader all that the first one tells,
// and comes after it. So it makes no difference which of the two a reader sees. An all-gather writes a packet twice
// when it copies its own packet into scratch and then broadcasts it from there to all ranks, itself included. Otherwise
// a reader may rely on neither.
func (w *walker) repeats(c *cell, carries *clock) bool {
	if !w.over(&c.write) {
		return false
	}
	if c.carries == nil {
		return true
	}
	return carries.t.covers(carries.c, c.carries.c) && carries.over.contains(c.carries.over)
}

// replaces checks that the first packet of a launch at a place may replace the packets of an earlier launch, when all
// launches have one size: each was read, by a read that is over, or is known to have been written.
func (w *walker) replaces(c *cell, at int, pl *plan.Place, part sub) error {
	v := w.v
	if !v.shape.fixed || c.flag < 0 {
		return nil
	}
	if !c.read && !w.known(c.write.stamp, false) {
		return w.reused(&c.write, true, true, pl, part)
	}
	for _, a := range v.repeated[at] {
		if !w.known(a.stamp, false) {
			return w.reused(&a, true, true, pl, part)
		}
	}
	delete(v.repeated, at)
	return nil
}

// unread returns the packets of a launch of whose arrival no read is a proof: those that were never read, and those
// that were written twice. For them only the writer's order counts.
func (v *verifier) unread(rank, launch int) map[int32]usage {
	out := map[int32]usage{}
	if launch < 0 {
		return out
	}
	add := func(a access) {
		if u, found := out[a.comp]; !found || a.t >= u.last.t {
			out[a.comp] = usage{last: a}
		}
	}
	from := v.cellAt(rank, plan.PacketPlane, 0, launch)
	for i := range v.p.GPUs[rank].ScratchChunks * len(v.shape.atoms) {
		c := &v.cells[from+i]
		if c.flag != int32(launch) {
			continue
		}
		if !c.read {
			add(c.write)
		}
		for _, a := range v.repeated[from+i] {
			add(a)
		}
		delete(v.repeated, from+i)
	}
	return out
}
