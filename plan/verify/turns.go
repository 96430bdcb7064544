package verify

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/goccl/goccl/plan"
)

// Bounds on the numbers of iterations that are examined to stand for all.
var turnLimits = []int64{4, 5, 6, 10, 18, 34}

const maxRuns = 1 << 12 // runs of a plan with pipelines

// checkShapes examines the plan for all sizes.
//
// Without pipelines there is one shape, whose atoms come from all sizes. With pipelines, each combination of numbers of
// iterations is a run. The largest number that is examined, most, stands for all larger ones: the run itself shows that
// one iteration more adds nothing new (steady.go). Numbers of consecutive launches are combined too when the
// plan has scratch, in which launches can meet.
func checkShapes(p *plan.Plan, r *resolved, report *Report, opts *Options) error {
	lo, hi := p.UnitRange()
	if lo > hi {
		return &Violation{Kind: Unspecified, Plan: p.Name, Detail: fmt.Sprintf("no message of %d to %d bytes divides into "+
			"%d chunks", p.MinSize, p.MaxSize, r.period)}
	}
	keys := sliceKeys(r)
	atoms, sets, err := sliceAtoms(p, keys, lo, hi)
	if err != nil {
		return err
	}
	l, err := findLoops(p, r, lo, hi)
	if err != nil {
		return err
	}
	c := &checker{p: p, r: r, l: l, report: report, opts: opts, atoms: atoms, sets: sets, lo: lo, hi: hi,
		ran:      map[string]bool{},
		combined: combined{map[string]digest{}, map[string]bool{}}}
	if !l.used {
		return c.plain()
	}
	err = c.pipelines()
	if !c.orders(err) {
		return err
	}
	whole := *c
	whole.ran, whole.combined, whole.full = map[string]bool{}, combined{map[string]digest{}, map[string]bool{}}, true
	if err := whole.pipelines(); err != nil {
		return err
	}
	return notExamined(p, "its packets pass through slices that are empty in small messages, beside pipelines; use one "+
		"slice, or a larger min_message_size")
}

// orders reports whether a plan may have been refused because packets bring order in messages of some sizes only.
func (c *checker) orders(err error) bool {
	return errors.As(err, new(*Violation)) && len(c.sets) > 1 && c.p.UsesPackets()
}

// checker runs the verifier for the shapes of a plan.
type checker struct {
	p      *plan.Plan
	r      *resolved
	l      *loops
	report *Report
	opts   *Options
	atoms  []atom
	sets   [][]bool // of atoms that chunks of one size have
	lo, hi int64
	full   bool // messages have all atoms
	ran    map[string]bool
	combined
}

// plain examines a plan without pipelines. Where packets bring order in some sizes only, all sequences of sizes that
// have different atoms are tried when one run for all of them is refused.
func (c *checker) plain() error {
	err := c.run(nil, nil)
	if !c.orders(err) {
		return err
	}
	runs := 1
	for range c.report.Launches {
		if runs *= len(c.sets); runs > maxRuns {
			return notExamined(c.p, "its packets pass through slices that are empty in small messages, in over %d combinations "+
				"of consecutive messages; use fewer slices, or a larger min_message_size", maxRuns)
		}
	}
	for i := range runs {
		var present [][]bool
		for k, rest := 0, i; k <= c.report.Launches; k, rest = k+1, rest/len(c.sets) {
			present = append(present, c.sets[rest%len(c.sets)])
		}
		if err := c.run(nil, present); err != nil {
			return err
		}
	}
	return nil
}

// turns is how often each class of pipelines runs. An open class runs as often or more often.
type turns struct {
	n    []int64
	open []bool
}

// pipelines examines a plan with pipelines. It looks at few iterations first, and at more when those do not repeat.
func (c *checker) pipelines() error {
	var unsteady error
	for i, most := range turnLimits {
		all := c.combinations(most)
		if len(all) > maxRuns {
			return notExamined(c.p, "its pipelines run in over %d combinations of numbers of iterations; give them the same "+
				"unit_size and num_chunks", maxRuns)
		}
		err := c.uniform(all)
		if i == 0 && (err == nil || errors.Is(err, errUnsteady)) {
			err = cmp.Or(c.balanced(), err)
		}
		if err == nil {
			err = c.mixed(all)
		}
		if !errors.Is(err, errUnsteady) {
			return err
		}
		unsteady = err
	}
	return unsteady
}

// balanced refuses a plan in which one class of pipelines adds to a counter and another takes: the counter is balanced
// only as long as the two run equally often.
func (c *checker) balanced() error {
	excess := make([]map[int]int, len(c.l.classes)) // by class and counter
	for i := range excess {
		excess[i] = map[int]int{}
	}
	for b, prog := range c.r.programs {
		for i := range prog {
			for j := range prog[i].Body {
				for at, does := range c.r.uses(c.r.rankOf[b], &prog[i].Body[j]) {
					at = c.r.home(at)
					if class := c.l.class[prog[i].Op]; does == plan.Takes {
						excess[class][at]--
					} else {
						excess[class][at]++
					}
				}
			}
		}
	}
	for i := range excess {
		k := &c.l.classes[i]
		for at, n := range excess[i] {
			if n == 0 || k.lo == k.hi {
				continue
			}
			return notExamined(c.p, "pipelines that signal and pipelines that wait on %s run equally often only for some "+
				"sizes, one of them over %d chunks by %d bytes; give them the same unit_size and num_chunks", c.r.name(at),
				k.op.NumChunks, k.op.UnitSize)
		}
	}
	return nil
}

// uniform runs the combinations, equal in all launches. It returns the first error, preferably one that says that the
// plan is wrong.
func (c *checker) uniform(all []turns) (unsteady error) {
	for _, t := range all {
		if err := c.run([]turns{t}, nil); errors.Is(err, errUnsteady) {
			unsteady = cmp.Or(unsteady, err)
		} else if err != nil {
			return err
		}
	}
	return unsteady
}

// mixed runs the combinations that differ between launches.
func (c *checker) mixed(all []turns) error {
	if !c.p.UsesPackets() && !c.p.UsesPlainScratch() {
		return nil
	}
	runs := 1
	for range c.report.Launches {
		if runs *= len(all); runs > maxRuns {
			return notExamined(c.p, "consecutive messages may run its pipelines in over %d combinations of numbers of "+
				"iterations; give them the same unit_size and num_chunks", maxRuns)
		}
	}
	// What needs more iterations than these mostly shows in a long launch behind one that is a little shorter.
	probe := []turns{all[max(0, len(all)-2)], all[len(all)-1]}
	if err := c.run(probe, nil); errors.Is(err, errUnsteady) {
		return err
	}
	for i := range runs {
		var mixed []turns
		same := true
		for k, rest := 0, i; k < c.report.Launches; k, rest = k+1, rest/len(all) {
			mixed = append(mixed, all[rest%len(all)])
			same = same && rest%len(all) == i%len(all)
		}
		if same {
			continue
		}
		if err := c.run(mixed, nil); err != nil {
			return err
		}
	}
	return nil
}

// combinations lists the numbers of iterations, up to most of each class, that some size of a chunk has. The last one
// has the largest numbers.
func (c *checker) combinations(most int64) []turns {
	var out []turns
	n, open := make([]int64, len(c.l.classes)), make([]bool, len(c.l.classes))
	var choose func(i int, lo, hi int64)
	choose = func(i int, lo, hi int64) {
		if lo > hi || len(out) > maxRuns {
			return
		}
		if i == len(n) {
			out = append(out, turns{slices.Clone(n), slices.Clone(open)})
			return
		}
		k := &c.l.classes[i]
		for n[i] = min(k.lo, most); n[i] <= min(k.hi, most); n[i]++ {
			open[i] = n[i] == most && k.hi > most
			from, to := c.p.UnitsFor(k.op, n[i], open[i])
			choose(i+1, max(lo, from), min(hi, to))
		}
	}
	choose(0, c.lo, c.hi)
	return out
}

// run executes the plan for one shape, given by launch; the last entry holds for all further launches.
func (c *checker) run(byLaunch []turns, present [][]bool) error {
	key := fmt.Sprint(byLaunch, present)
	if c.ran[key] {
		return nil
	}
	each := slices.Clone(byLaunch)
	for len(each) > 0 && len(each) < c.report.Launches {
		each = append(each, each[len(each)-1])
	}
	if c.l.used && !c.opts.every && c.follows(each) {
		return nil
	}
	sh := messageShape{atoms: c.atoms, alignment: c.p.Alignment, parts: map[partKey][]sub{}, loops: c.l, turns: byLaunch,
		fixed: c.lo == c.hi, present: present}
	if c.l.used {
		sh.atoms = c.windowed(byLaunch)
	}
	for i := range sh.atoms {
		sh.atoms[i].always = sh.atoms[i].always || c.full
	}
	for _, a := range sh.atoms {
		sh.chunk = max(sh.chunk, a.chunk)
	}
	starts, err := c.execute(&sh)
	if err == nil && c.l.used {
		c.note(each, starts)
	}
	c.report.Shapes += len(sh.atoms)
	c.ran[key] = err == nil
	return err
}

// execute runs the verifier, and again as long as it finds that it must rely on less.
// It returns the states between launches.
func (c *checker) execute(sh *messageShape) ([]digest, error) {
	again := second{mute: map[int]bool{}, shared: map[int]bool{}}
	for {
		again.needed = false
		v, err := newVerifier(c.p, c.r, sh, c.report, c.opts)
		if err == nil {
			v.second = &again
			err = v.run()
		}
		race := (*Violation)(nil)
		switch {
		case errors.Is(err, errAgain):
		case errors.As(err, &race) && race.Kind == DataRace && c.order(sh, &again):
		case err != nil && again.ambiguity != nil:
			return nil, again.ambiguity
		case err != nil:
			return nil, err
		case !again.needed:
			return v.starts, nil
		}
	}
}

// windowed returns the atoms with each window that some chunk has.
func (c *checker) windowed(byLaunch []turns) []atom {
	most := int64(1)
	for i := range byLaunch {
		most = max(most, slices.Max(byLaunch[i].n))
	}
	op := c.l.classes[0].op
	unit := min(c.hi*c.p.Alignment, max(c.p.Alignment, op.UnitSize/int64(op.NumChunks)/c.p.Alignment*c.p.Alignment))
	var out []atom
	for _, a := range c.atoms {
		for w := range most {
			x := a
			x.window = int(w)
			if len(c.atoms) == 1 { // an example whose bytes are the window
				x.lo, x.hi, x.chunk = w*unit, (w+1)*unit, most*unit
			}
			out = append(out, x)
		}
	}
	return out
}
