package verify

import (
	"cmp"
	"errors"
	"slices"

	"github.com/goccl/goccl/plan"
)

// movements is a set of movements whose threads have read their sources. A packet proves this of the movement that
// wrote it, and of the movements whose packets went into it, while the phase may still go on. The batches are sorted by
// id, and do not change.
type movements []batch

// batch is up to 64 movements of one op, by instance. A clock that covers their phase has no need of it.
type batch struct {
	stamp
	id   int64
	bits uint64
}

// batch returns the set of one instance. Instances of one op are numbered from a multiple of 64 elements on.
func (t *timeline) batch(inst int64, at stamp) batch {
	n := int64(t.order)
	seq, element := inst/n, inst%n
	return batch{at, seq>>6*n + element, 1 << (seq & 63)}
}

// has returns the bits of a batch that are in the set.
func (m movements) has(id int64) uint64 {
	if i, found := slices.BinarySearchFunc(m, id, batch.byID); found {
		return m[i].bits
	}
	return 0
}

func (w batch) byID(id int64) int { return cmp.Compare(w.id, id) }

// union returns the movements that are in either set.
func (m movements) union(o movements) movements {
	switch {
	case len(o) == 0 || len(m) == len(o) && len(m) > 0 && &m[0] == &o[0]:
		return m
	case len(m) == 0:
		return o
	}
	out := make(movements, 0, len(m)+len(o))
	for i, j := 0, 0; i < len(m) || j < len(o); {
		switch {
		case j == len(o) || i < len(m) && m[i].id < o[j].id:
			out = append(out, m[i])
			i++
		case i == len(m) || o[j].id < m[i].id:
			out = append(out, o[j])
			j++
		default:
			w := m[i]
			w.bits |= o[j].bits
			out = append(out, w)
			i, j = i+1, j+1
		}
	}
	return out
}

// contains reports whether o is a subset.
func (m movements) contains(o movements) bool {
	for _, w := range o {
		if w.bits&^m.has(w.id) != 0 {
			return false
		}
	}
	return true
}

// settle drops the movements of completed phases.
func (k *clock) settle() {
	known := func(w batch) bool { return k.completed(int(w.comp)) > w.t }
	if slices.ContainsFunc(k.over, known) {
		k.over = slices.DeleteFunc(slices.Clone(k.over), known)
	}
}

// movements returns the image of a set.
func (q *quotient) movements(g int32, m movements) movements {
	if g == 0 || len(m) == 0 {
		return m
	}
	out := make(movements, len(m))
	for i, w := range m {
		out[i] = batch{stamp{q.component(g, w.comp), w.t}, q.instance(g, w.id), w.bits}
	}
	slices.SortFunc(out, func(a, b batch) int { return cmp.Compare(a.id, b.id) })
	return out
}

// prove adds movements.
func (k *clock) prove(list []movements) {
	var all movements
	for _, m := range list {
		all = append(all, m...)
	}
	slices.SortFunc(all, func(a, b batch) int { return cmp.Compare(a.id, b.id) })
	out := all[:0]
	for _, w := range all {
		if n := len(out); n > 0 && out[n-1].id == w.id {
			out[n-1].bits |= w.bits
		} else {
			out = append(out, w)
		}
	}
	k.over = k.over.union(out)
}

// proof returns the movements that are over when a packet arrives that the walker writes.
func (w *walker) proof() movements {
	if w.made == nil {
		w.made = w.from.union(movements{w.v.time.batch(w.inst, w.reads)})
	}
	return w.made
}

// over reports whether a read has completed when the walker makes its own.
func (w *walker) over(a *access) bool {
	return w.known(a.stamp, false) || w.proven(w.v.time.batch(a.inst, a.stamp), true)
}

// proven reports whether movements are over, by what the thread block knows and, with own, what the packets bring that
// this thread has just consumed.
func (w *walker) proven(m batch, own bool) bool {
	id := m.id
	if w.frame != 0 {
		id = w.v.quotient.instance(w.v.quotient.Inverse(w.frame), id)
	}
	left := m.bits &^ w.know.over.has(id)
	if own && left != 0 {
		left &^= w.from.has(id)
		if c := w.carried; c != nil && left != 0 {
			if w.coveredBy(c, m.comp, false) > m.t {
				return true
			}
			left &^= c.over.has(id)
		}
	}
	return left == 0
}

// usage is the accesses of a component to a plane of scratch in one launch: the last one, and all reads, since packets
// may prove that they are over.
type usage struct {
	last access
	all  movements
}

// note adds an access to the usage of its component.
func (v *verifier) note(uses map[int32]usage, a access, write bool) {
	u := uses[a.comp]
	if u.last = a; v.packets && !write {
		w := v.time.batch(a.inst, a.stamp)
		if n := len(u.all); n > 0 && u.all[n-1].id == w.id {
			u.all[n-1].bits |= w.bits
		} else {
			u.all = append(u.all, w)
		}
	}
	uses[a.comp] = u
}

// ends reports whether all accesses have completed and, with visible, can be read.
func (w *walker) ends(u *usage, visible, own bool) bool {
	if w.known(u.last.stamp, visible) {
		return true
	}
	if visible || len(u.all) == 0 {
		return false
	}
	for _, m := range u.all {
		if !w.known(m.stamp, false) && !w.proven(m, own) {
			return false
		}
	}
	return true
}

// errAgain ends a run that a second one replaces.
var errAgain = errors.New("run again")

// second is what the first run of a shape found and a second run must respect.
type second struct {
	needed    bool
	mute      map[int]bool // packet cells with several writers: a packet there brings its payload only
	shared    map[int]bool // counters with unordered consumers
	ambiguity error        // the first of these; also the reason why the plan is wrong if the second run fails

	dry    bool                // no data moves: only what orders thread blocks runs
	missed int                 // arrivals of which waits learned nothing, over all waits
	sent   map[[2]int][]*clock // by counter and thread block: what its arrivals in a dry run knew
	known  map[[2]int][]*clock // the same of the run before
}

// before bounds how many of most arrivals from another thread block can come before a wait of b: not those that the
// wait happens before.
func (s *second) before(at, from int, b *blockState, most int) int {
	after := func(k *clock) bool { return k.completed(b.id) > b.phase }
	if n := slices.IndexFunc(s.known[[2]int{at, from}], after); n >= 0 {
		return min(n, most)
	}
	return most
}

// order finds which arrivals at counters come after a wait there, in dry runs. They are no reason for the wait not to
// learn of others. Each run knows what the one before found. It reports whether the last knows
// more than the first.
func (c *checker) order(sh *messageShape, again *second) bool {
	if again.known != nil || len(again.shared) > 0 || sh.loops.used || c.p.UsesPackets() || c.r.symmetry != nil {
		return false
	}
	for first, last := 0, 0; ; {
		run := &second{dry: true, sent: map[[2]int][]*clock{}, known: again.known, shared: map[int]bool{}}
		v, err := newVerifier(c.p, c.r, sh, c.report, c.opts)
		if err == nil {
			v.second = run
			err = v.run()
		}
		if err != nil {
			return false
		}
		if again.known == nil {
			first, last = run.missed, run.missed+1
		}
		again.known = run.sent
		if run.missed >= last {
			return last < first
		}
		last = run.missed
	}
}

// repeats reports whether a second packet with the bytes of the first tells its reader all that the first one tells,
// and comes after it. So it makes no difference which of the two a reader sees. An all-gather writes a packet twice
// when it copies its own packet into scratch and then broadcasts it from there to all ranks, itself included. Otherwise
// a reader may rely on neither.
func (w *walker) repeats(c *cell, carries *clock) bool {
	if !w.over(&c.write) {
		return false
	}
	return c.carries == nil || carries.t.covers(carries.c, c.carries.c) && carries.over.contains(c.carries.over)
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
