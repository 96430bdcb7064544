package verify

import (
	"fmt"
	"slices"

	"github.com/goccl/goccl/plan"
)

// ambiguous reports two threads that wait on one counter with no order between them.
func (v *verifier) ambiguous(b *blockState, c *counter) error {
	e := v.violation(Ambiguous, "which of them gets which signal depends on timing: order them, or use one channel or "+
		"semaphore each", v.here(b, "waits on "+v.nameOf(c)))
	if c.consumer >= 0 && c.consumer != b.id {
		e.Detail = v.title(v.blocks[c.consumer]) + " waits on it too, with no order between the two\n" + e.Detail
	}
	return e
}

func (v *verifier) nameOf(c *counter) string {
	for i := range v.counters {
		if &v.counters[i] == c {
			return v.name(i)
		}
	}
	return ""
}

// wrongBarrier returns the first barrier, by rank and id, whose number of users differs from its number of thread
// blocks.
func (v *verifier) wrongBarrier() (first [2]int, found bool) {
	for id, b := range v.barriers {
		if len(b.users) != b.size && (!found || id[0] < first[0] || id[0] == first[0] && id[1] < first[1]) {
			first, found = id, true
		}
	}
	return first, found
}

func (v *verifier) barrierUsers(id [2]int, b *barrier) error {
	users := make([]int, 0, len(b.users))
	for u := range b.users {
		users = append(users, u-v.first[id[0]])
	}
	slices.Sort(users)
	return v.violation(Ambiguous, fmt.Sprintf("barrier %d of rank %d is for %d thread blocks, and thread blocks %v use it",
		id[1], id[0], b.size, users))
}

// balance checks that every launch leaves counters as it found them. It counts statically.
func (v *verifier) balance() error {
	for i := range v.counters {
		c := &v.counters[i]
		in, out := c.perBlock.sum(), c.perWait.sum()
		if in == out {
			continue
		}
		e := v.violation(Unbalanced, fmt.Sprintf("%s: %d signals or releases and %d waits or acquires in a launch", v.name(i),
			in, out))
		if in < out {
			e.Kind = Deadlock
			e.Detail += ": sooner or later one of the waits is never answered"
		} else {
			e.Detail += ": the rest stays, and lets waits of the next launch through too early"
		}
		const most = 6
		for _, b := range v.blocks {
			for pc := range b.program {
				if does := v.usesCounter(b, &b.program[pc], c); does != "" && len(e.Events) < most {
					e.Events = append(e.Events, v.event(event{int32(b.id), int32(pc), 0}, does, nil))
				}
			}
		}
		return e
	}
	return nil
}

// usesCounter describes what an op does to a counter, if anything.
func (v *verifier) usesCounter(b *blockState, u *unit, c *counter) string {
	for at, does := range v.uses(b.rank, u.step) {
		switch {
		case &v.counters[at] != c:
		case u.step.Kind.Semaphores:
			return "uses it"
		case does == plan.Takes:
			return "waits on it"
		default:
			return "signals it"
		}
	}
	return ""
}

// deadlock explains why the remaining thread blocks cannot continue: a cycle among them, or a wait that nothing will
// satisfy.
func (v *verifier) deadlock() error {
	e := &Violation{Kind: Deadlock, Plan: v.p.Name}
	start := -1
	for _, b := range v.blocks {
		if !b.done && !b.ended && (start < 0 || b.launch < v.blocks[start].launch) {
			start = b.id
		}
	}
	seen := map[int]int{}
	var path []int
	var last blockage
	for at := start; ; {
		if n, ok := seen[at]; ok {
			path = path[n:]
			e.Detail = "each waits for the next, and the last for the first"
			break
		}
		seen[at] = len(path)
		path = append(path, at)
		last = v.blockage(v.blocks[at])
		next := -1
		for _, c := range last.by {
			if o := v.blocks[c]; !o.done && (next < 0 || o.launch < v.blocks[next].launch) {
				next = c
			}
		}
		if next < 0 {
			e.Detail = "nobody is left to do that"
			if len(last.by) == 0 {
				e.Detail = "no op of the plan does that"
			}
			break
		}
		if v.blocks[next].ended {
			o := v.blocks[next]
			e.Detail = fmt.Sprintf("%s, which could, has reached the end of launch %d without doing it", v.title(o), o.launch+1)
			break
		}
		at = next
	}
	for _, id := range path {
		e.Events = append(e.Events, v.here(v.blocks[id], "waits for "+v.blockage(v.blocks[id]).what))
	}
	return e
}

// blockage is what a thread block waits for, and which thread blocks can provide it.
type blockage struct {
	what string
	by   []int
}

func (v *verifier) blockage(b *blockState) blockage {
	u := &b.program[b.pc]
	s := u.step
	switch {
	case s.Does.Has(plan.Takes):
		for i := range s.Entries() {
			at := v.counterOf(b.rank, s, i, plan.Takes)
			c := &v.counters[at]
			if v.open(b, at) {
				continue
			}
			what := ""
			if s.Kind.Semaphores {
				what = fmt.Sprintf("a release of semaphore %d, which is 0", s.Op.SemaphoreIDs[i])
			} else if at < len(v.links) && v.links[at].Type == plan.HookChannel {
				what = v.name(at)
			} else {
				l := &v.links[at]
				what = fmt.Sprintf("signal %d on %s channel %d from rank %d, which sent %d", c.waits+1, l.Type, l.ID, l.Peer,
					c.total)
			}
			return blockage{what, c.perBlock.blocks()}
		}
	case s.Does.Has(plan.Joins):
		bar := v.barriers[[2]int{b.rank, s.Op.BarrierID}]
		var by []int
		for id := range bar.users {
			if !slices.Contains(bar.arrived, id) {
				by = append(by, id)
			}
		}
		slices.Sort(by)
		return blockage{fmt.Sprintf("%d more of %d thread blocks at barrier %d", bar.size-len(bar.arrived), bar.size,
			s.Op.BarrierID), by}
	default:
		if src, part, at := v.missing(b, u); at >= 0 {
			return blockage{"the packet at " + v.where(src, part).String(), v.writers(at, b.launch)}
		}
	}
	return blockage{what: "nothing"}
}

// writers lists the thread blocks that write a cell in a launch.
func (v *verifier) writers(cell, launch int) (by []int) {
	for _, b := range v.blocks {
		for i := range b.program {
			if v.writesCell(&b.program[i], cell, launch) {
				by = append(by, b.id)
				break
			}
		}
	}
	return by
}

func (v *verifier) writesCell(u *unit, cell, launch int) bool {
	for j := range u.step.Moves {
		for k := range u.step.Moves[j].Dst {
			for _, part := range u.parts[j] {
				if v.cellOf(&u.step.Moves[j].Dst[k], part, launch) == cell {
					return true
				}
			}
		}
	}
	return false
}
