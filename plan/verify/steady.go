package verify

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goccl/goccl/plan"
)

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
