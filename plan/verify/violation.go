package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccl/goccl/plan"
)

// Kind is the kind of a plan's error.
type Kind string

// The kinds of violation.
const (
	WrongResult Kind = "wrong result"
	Deadlock    Kind = "deadlock"
	DataRace    Kind = "data race"
	Unbalanced  Kind = "unbalanced"
	Ambiguous   Kind = "ambiguous"
	Unspecified Kind = "unspecified"
	Unverified  Kind = "unverified"
)

// Violation is the counterexample that Verify returns: a few accesses or waits, and why they conflict.
type Violation struct {
	Kind   Kind
	Plan   string
	Events []Event // in the order in which they go wrong
	Detail string  // why, in one or more lines
	Hint   string  // the usual fix; may be empty
}

// Event is an action of one thread block, or of the caller of a rank, in one launch.
type Event struct {
	Pos       plan.Pos // Block is -1 for the caller
	Hook      int      // 1 + the hook at which the caller acts while the launch runs; 0 for none
	Launch    int      // from 0
	Iteration int      // of the pipeline, -1 outside
	Op        plan.OpName
	Line      string // the author's, "file:line", or ""
	Does      string // "writes", "waits for …"
	Where     *Where // the memory that it accesses, or nil
}

// Where is a range of bytes in a buffer. Lo and Hi are an example, for a message of Message bytes.
type Where struct {
	Place   plan.Place
	Lo, Hi  int64
	Message int64
	Chunk   string // name of the place's chunk
}

func (w *Where) String() string {
	s := fmt.Sprintf("%s of rank %d, %s", w.Place.Plane, w.Place.Rank, w.Chunk)
	if w.Place.Plane <= plan.OutputPlane {
		s += fmt.Sprintf(" (bytes %d to %d when the message has %d)", w.Lo, w.Hi-1, w.Message)
	}
	return s
}

func (e *Event) String() string {
	var b strings.Builder
	if e.Pos.Block < 0 {
		fmt.Fprintf(&b, "the caller of rank %d, ", e.Pos.Rank)
		if e.Launch == 0 {
			b.WriteString("before launch 1,")
		} else {
			fmt.Fprintf(&b, "after launch %d,", e.Launch)
		}
	} else if e.Hook > 0 {
		fmt.Fprintf(&b, "launch %d, the caller of rank %d at hook %d", e.Launch+1, e.Pos.Rank, e.Hook-1)
	} else {
		fmt.Fprintf(&b, "launch %d, %s (%s", e.Launch+1, e.Pos, e.Op)
		if e.Iteration >= 0 {
			fmt.Fprintf(&b, ", iteration %d", e.Iteration)
		}
		b.WriteString(")")
		if e.Line != "" {
			b.WriteString(", at " + e.Line + ",")
		}
	}
	b.WriteString(" " + e.Does)
	if e.Where != nil {
		b.WriteString(" " + e.Where.String())
	}
	return b.String()
}

// Error returns the whole counterexample, one event per line.
func (e *Violation) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "plan %s: %s", e.Plan, e.Kind)
	for i := range e.Events {
		fmt.Fprintf(&b, "\n  %d. %s", i+1, e.Events[i].String())
	}
	for _, line := range strings.Split(e.Detail, "\n") {
		if line != "" {
			b.WriteString("\n  " + line)
		}
	}
	if e.Hint != "" {
		b.WriteString("\n  hint: " + e.Hint)
	}
	return b.String()
}

// Summary returns the counterexample in one line.
func (e *Violation) Summary() string {
	s := fmt.Sprintf("plan %s: %s", e.Plan, e.Kind)
	if len(e.Events) > 0 {
		s += ": " + e.Events[len(e.Events)-1].String()
	}
	return s
}

func (v *verifier) violation(kind Kind, detail string, events ...Event) *Violation {
	return &Violation{Kind: kind, Plan: v.p.Name, Events: events, Detail: detail}
}

// event describes an executed op, or a caller's turn.
func (v *verifier) event(at event, does string, where *Where) Event {
	e := Event{Pos: plan.Pos{Rank: int(at.pc), Block: -1, Op: -1, Inner: -1},
		Launch: int(at.launch), Iteration: -1, Does: does, Where: where}
	if at.block < 0 {
		return e
	}
	b := v.blocks[at.block]
	e.Hook = v.hookOf(b)
	program := b.programs[min(int(at.launch), len(b.programs)-1)]
	if int(at.pc) >= len(program) {
		e.Pos = plan.Pos{Rank: b.rank, Block: int(at.block) - v.first[b.rank], Op: len(v.programs[b.id]), Inner: -1}
		e.Op = "end"
		return e
	}
	u := &program[at.pc]
	e.Pos, e.Op = u.step.Pos, u.step.Op.Name
	if e.Pos.Inner >= 0 {
		e.Iteration = int(u.iter)
	}
	e.Line = v.p.Line(e.Pos)
	return e
}

// hookOf returns 1 + the hook at which b is the caller's work, or 0 for a thread block of the plan.
func (v *verifier) hookOf(b *blockState) int {
	return max(0, b.id-v.first[b.rank]-len(v.p.GPUs[b.rank].ThreadBlocks)+1)
}

// title names a thread block, or the caller's work at a hook.
func (v *verifier) title(b *blockState) string {
	if h := v.hookOf(b); h > 0 {
		return fmt.Sprintf("the caller of rank %d at hook %d", b.rank, h-1)
	}
	return fmt.Sprintf("rank %d, thread block %d", b.rank, b.id-v.first[b.rank])
}

// here describes b at the op that it executes.
func (v *verifier) here(b *blockState, does string) Event {
	return v.event(event{int32(b.id), int32(b.pc), int32(b.launch)}, does, nil)
}

// where returns an example range for one atom of one chunk of a place.
func (v *verifier) where(pl *plan.Place, part sub) *Where {
	a := v.shape.atoms[part.atom]
	chunk := pl.Index + int(part.chunk)
	l := v.p.OfChunk(a.chunk)
	at, _ := l.Locate(chunk, a.lo)
	return &Where{Place: plan.Place{Rank: pl.Rank, Plane: pl.Plane, Index: chunk, Size: 1}, Lo: at, Hi: at + a.hi - a.lo,
		Message: l.Message, Chunk: v.p.ChunkName(chunk)}
}

// ambiguous reports two threads that wait on one counter with no order between them.
func (v *verifier) ambiguous(b *blockState, at int) error {
	c := &v.counters[at]
	e := v.violation(Ambiguous, "which of them gets which signal depends on timing: order them, or use one channel or "+
		"semaphore each", v.here(b, "waits on "+v.name(at)))
	if c.consumer >= 0 && c.consumer != b.id {
		e.Detail = v.title(v.blocks[c.consumer]) + " waits on it too, with no order between the two\n" + e.Detail
	}
	return e
}

// barrierIDs returns the barriers in order.
func (v *verifier) barrierIDs() [][2]int {
	return slices.SortedFunc(maps.Keys(v.barriers), func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
}

// barrierUsers reports the first barrier, by rank and id, whose number of users differs from its number of thread
// blocks.
func (v *verifier) barrierUsers() error {
	for _, id := range v.barrierIDs() {
		b := v.barriers[id]
		if len(b.users) == b.size {
			continue
		}
		users := slices.Sorted(maps.Keys(b.users))
		for i := range users {
			users[i] -= v.first[id[0]]
		}
		return v.violation(Ambiguous, fmt.Sprintf("barrier %d of rank %d is for %d thread blocks, and thread blocks %v "+
			"use it", id[1], id[0], b.size, users))
	}
	return nil
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
		by := slices.DeleteFunc(slices.Sorted(maps.Keys(bar.users)),
			func(id int) bool { return slices.Contains(bar.arrived, id) })
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
		if slices.ContainsFunc(b.program, func(u unit) bool { return v.writesCell(&u, cell, launch) }) {
			by = append(by, b.id)
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
