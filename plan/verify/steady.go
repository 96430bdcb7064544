package verify

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goccl/goccl/plan"
)

// schedule is which thread blocks may run. A block that has not ended its launch is in the queue once, or waits in one
// place: at a counter, a barrier, a packet, or the gate.
type schedule struct {
	queue    []int
	queued   []bool // by thread block
	launched []int  // by rank: launches begun
	running  []int  // by rank: thread blocks that have not ended the launch
	gate     gate
	starts   []digest // state when all ranks begin launch 1, 2, …, unless the plan uses packets
}

// gate orders the execution of a plan with pipelines, so that their iterations can be compared. The order makes no
// difference to the outcome (see counter).
//
// A thread block stops before each iteration. When nothing else can run, a tick lets the blocks that wait there run one
// iteration each, if they are in the earliest launch and in the chosen class of pipelines. A rank begins its next
// launch when no block waits for a tick.
type gate struct {
	waiting []int // thread blocks that stopped before an iteration
	turns   []turn
	ticks   []tick
}

// turn is a rank that has ended a launch, and the clock of its end.
type turn struct {
	rank int
	k    *clock
}

// tick is the state when some blocks are about to run one iteration.
type tick struct {
	launch, class int
	blocks        []stopped // that run, by number
	seen          bool      // the following are set
	core          digest    // of all state except the windows
	windows       []digest
	stuck         bool // another block waits in the middle of a pipeline of the class
}

// stopped is a block before iteration iter of a pipeline.
type stopped struct {
	block int
	loop  *plan.Step
	iter  int32
}

// stops reports whether b stops before u, the first op of an iteration.
func (g *gate) stops(b *blockState, u *unit) bool {
	if u.loop == nil || u.step != &u.loop.Body[0] || b.grant == b.pc {
		return false
	}
	g.waiting = append(g.waiting, b.id)
	return true
}

// tick lets blocks run on when all have stopped. It reports whether there were any.
func (v *verifier) tick() (bool, error) {
	g := &v.gate
	if len(g.waiting) == 0 {
		turns := g.turns
		g.turns = nil
		for _, t := range turns {
			if err := v.turn(t.rank, t.k); err != nil {
				return false, err
			}
		}
		v.between()
		return len(turns) > 0, nil
	}
	next := tick{launch: -1}
	class := func(id int) int { return v.shape.loops.class[v.blocks[id].program[v.blocks[id].pc].loop.Op] }
	for _, id := range g.waiting {
		b := v.blocks[id]
		if c := class(id); next.launch < 0 || b.launch < next.launch || b.launch == next.launch && c < next.class {
			next.launch, next.class = b.launch, c
		}
	}
	kept := g.waiting[:0]
	for _, id := range g.waiting {
		b := v.blocks[id]
		if b.launch != next.launch || class(id) != next.class {
			kept = append(kept, id)
			continue
		}
		u := &b.program[b.pc]
		next.blocks = append(next.blocks, stopped{id, u.loop, u.iter})
		b.grant = b.pc
		v.ready(id)
	}
	g.waiting = kept
	slices.SortFunc(next.blocks, func(a, b stopped) int { return a.block - b.block })
	if v.shape.at(next.launch).open[next.class] {
		v.snapshot(&next)
	}
	g.ticks = append(g.ticks, next)
	return true, nil
}

// errUnsteady is the class of the error for a run from which nothing follows about more iterations.
var errUnsteady = errors.New("not steady")

// steadyError is ErrTooLarge and errUnsteady.
type steadyError struct{ error }

func (e steadyError) Is(target error) bool { return target == errUnsteady }
func (e steadyError) Unwrap() error        { return e.error }

// stretch is two consecutive ticks with matching states: after the second, one more window lies behind the pipelines
// than after the first, one less before them, and the rest is equal. So a plan that runs one iteration more can pass
// through the same state once more, and the rest of its run equals the rest of this one.
type stretch struct {
	tick       *tick
	next, done windowRun // windows not yet reached, before; windows that nothing distinguishes any more, after
}

// windowRun is a range of windows in the same state.
type windowRun struct{ from, to int }

// steady shows that the run stands for all larger numbers of iterations of the open classes. Each pipeline of each
// thread block in each launch must take part in one stretch, and the window that one stretch adds must be the one
// that the next finds.
func (g *gate) steady(v *verifier) error {
	all := map[string][]stretch{}
	var order []string
	for i := 1; i < len(g.ticks); i++ {
		a, b := &g.ticks[i-1], &g.ticks[i]
		if s, ok := matching(a, b); ok {
			name := b.name()
			if all[name] == nil {
				order = append(order, name)
			}
			all[name] = append(all[name], s)
		}
	}
	type pipeline struct {
		launch, block int
		loop          *plan.Step
	}
	covered := map[pipeline]bool{}
	type part struct{ launch, class int }
	left := map[part][]windowRun{} // where the added window may lie
	for _, name := range order {
		at := part{all[name][0].tick.launch, all[name][0].tick.class}
		var now []windowRun
		before, found := left[at]
		for _, s := range all[name] {
			meets := func(w windowRun) bool { return w.from < s.next.to && s.next.from < w.to }
			if !found || slices.ContainsFunc(before, meets) {
				now = append(now, s.done)
			}
		}
		clash := len(now) == 0
		for _, b := range all[name][0].tick.blocks {
			clash = clash || covered[pipeline{at.launch, b.block, b.loop}]
		}
		if clash {
			continue
		}
		for _, b := range all[name][0].tick.blocks {
			covered[pipeline{at.launch, b.block, b.loop}] = true
		}
		left[at] = now
	}
	for launch := range v.report.Launches {
		for b, prog := range v.programs {
			for i := range prog {
				s := &prog[i]
				if !s.Does.Has(plan.Loops) || len(s.Body) == 0 || covered[pipeline{launch, b, s}] {
					continue
				}
				if c := v.shape.loops.class[s.Op]; v.shape.at(launch).open[c] {
					return steadyError{notExamined(v.p, "the pipeline at %v does not settle into a rhythm that repeats within "+
						"%d iterations; bound how far thread blocks run ahead of each other, or set a smaller max_message_size",
						s.Pos, v.shape.at(launch).n[c])}
				}
			}
		}
	}
	return nil
}

// name identifies the pipelines that run in a tick.
func (t *tick) name() string {
	s := fmt.Sprint(t.launch, t.class)
	for _, b := range t.blocks {
		s += fmt.Sprintf(" %d:%d", b.block, b.loop.Pos.Op)
	}
	return s
}

// matching compares consecutive ticks.
func matching(a, b *tick) (s stretch, ok bool) {
	if !a.seen || !b.seen || a.launch != b.launch || a.class != b.class || a.stuck || b.stuck || a.core != b.core ||
		len(a.blocks) != len(b.blocks) {
		return s, false
	}
	for i := range a.blocks {
		if x := a.blocks[i]; b.blocks[i] != (stopped{x.block, x.loop, x.iter + 1}) {
			return s, false
		}
	}
	return oneMore(a, b)
}

// oneMore compares the windows: runs of equal ones are the same, but one is longer by one, and a later one shorter.
func oneMore(a, b *tick) (s stretch, ok bool) {
	was, is := runsOf(a.windows), runsOf(b.windows)
	if len(was) != len(is) {
		return s, false
	}
	longer, shorter := -1, -1
	for i := range was {
		if a.windows[was[i].from] != b.windows[is[i].from] {
			return s, false
		}
		switch d := (is[i].to - is[i].from) - (was[i].to - was[i].from); {
		case d == 0:
		case d == 1 && longer < 0:
			longer = i
		case d == -1 && longer >= 0 && shorter < 0:
			shorter = i
		default:
			return s, false
		}
	}
	if len(was) == 0 { // no data in these pipelines
		return stretch{b, windowRun{0, 1}, windowRun{0, 1}}, true
	}
	if longer < 0 && shorter < 0 && len(was) == 1 { // nor here
		return stretch{b, was[0], is[0]}, true
	}
	if shorter < 0 {
		return s, false
	}
	return stretch{b, was[shorter], is[longer]}, true
}

func runsOf(windows []digest) (runs []windowRun) {
	for i := range windows {
		if i > 0 && windows[i] == windows[i-1] {
			runs[len(runs)-1].to++
		} else {
			runs = append(runs, windowRun{i, i + 1})
		}
	}
	return runs
}

// between notes the state between two launches, when all ranks are about to begin the second of them. Two runs that are
// in equal states there take the same steps from there on, if they have the same numbers of iterations from there on:
// all that the state leaves out is in memory, and makes no difference.
//
//   - The callers have just rewritten all input and output.
//   - An access to scratch is refused unless all accesses of the launch before, to the same half, are known to be over
//     (walker.enter). Then they are no race in its cells either, and cells of earlier launches are in the other half.
//   - A value that scratch still has from an earlier launch is wrong in every output, whichever it is.
//
// Packets have more state than that, and plans with packets are run with all combinations.
func (v *verifier) between() {
	launch := len(v.starts) + 1
	if v.p.UsesPackets() || launch >= v.report.Launches {
		return
	}
	for _, b := range v.blocks {
		if v.quotient.own(b.rank) && (b.done || b.ended || b.launch != launch || b.pc != 0) {
			return
		}
	}
	_, d := v.write((*snapshot).state)
	v.starts = append(v.starts, d)
}

// combined records the runs whose launches have different numbers of iterations.
type combined struct {
	starts map[string]digest // by the numbers of the launches before: the state in which the next begins
	passed map[string]bool   // by such a state and the numbers of the launches from there on
}

func (c *combined) note(byLaunch []turns, starts []digest) {
	for i, d := range starts {
		c.starts[fmt.Sprint(byLaunch[:i+1])] = d
		c.passed[fmt.Sprint(d, byLaunch[i+1:])] = true
	}
}

// follows reports whether nothing new can come of a run: its first launches have been run, and what comes after them,
// from an equal state.
func (c *combined) follows(byLaunch []turns) bool {
	for i := 1; i < len(byLaunch); i++ {
		if d, found := c.starts[fmt.Sprint(byLaunch[:i])]; found && c.passed[fmt.Sprint(d, byLaunch[i:])] {
			return true
		}
	}
	return false
}
