package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccl/goccl/device/cuda"
)

// Options select the trials of Run.
type Options struct {
	Seed           uint64
	Trials, Ranks  int
	Jobs           int      // trials at a time; 0: one
	Faults, Phases []string // names, or what names begin with (mismatch); empty: all
	CUDA           bool     // on GPUs; without the phases that need host memory
	Slow           float64  // multiplies the limits of times; 0: 1
	// Program is the command of a rank; a trial in JSON is its last argument.
	Program []string
	Out     io.Writer // a line for each cell
	// Save, if there is one, keeps the results so far; it is called now and then, and at the end.
	Save func(res *Result, final bool) error
}

// kind is a fault in a phase, and what came of it.
type kind struct {
	f *fault
	p *phase
	c *Cell
}

// Unjudged says what the trials do not look at, "" if they look at all there is.
func (o *Options) Unjudged() string {
	if o.CUDA && o.Jobs > 1 {
		return fmt.Sprintf("device memory: %d trials at a time share the GPUs", o.Jobs)
	}
	return ""
}

// outOfTime is why a cell is untried that a run has not come to.
const outOfTime = "the run ended before it"

// run is a call of Run. mu guards the state that its workers share: the result with its cells, the output and the saved
// file.
type run struct {
	Options
	mu  sync.Mutex
	res *Result
	err error // of Save
}

// Run performs the trials, one of each cell in turn, until ctx ends: then the cells have about equal numbers of trials.
// The result says whether the run is a success.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Slow == 0 {
		o.Slow = 1
	}
	all := &run{Options: o, res: newResult(o)}
	kinds, err := all.cells()
	if err != nil {
		return nil, err
	}
	type part struct {
		kind
		number int
	}
	parts := make(chan part)
	var workers sync.WaitGroup
	for range max(1, o.Jobs) {
		workers.Go(func() {
			for p := range parts {
				all.trial(p.kind, p.number)
			}
		})
	}
	for i := range o.Trials {
		for _, k := range kinds {
			if ctx.Err() == nil {
				parts <- part{k, i}
			}
		}
	}
	close(parts)
	workers.Wait()
	for _, c := range all.res.Cells {
		if c.Trials == 0 || c.Trials < o.Trials { // the others have been printed
			fmt.Fprintln(o.Out, c)
		}
	}
	all.judge()
	if o.Save != nil && all.err == nil {
		all.err = o.Save(all.res, true)
	}
	return all.res, errors.Join(all.err, ctx.Err())
}

// cells makes the cells of the run and returns those that can be tried. The others say why not.
func (r *run) cells() (kinds []kind, err error) {
	fs, err := choose(faults(), r.Faults)
	if err != nil {
		return nil, err
	}
	ps, err := choose(phases(), r.Phases)
	if err != nil {
		return nil, err
	}
	if r.CUDA {
		n, err := cuda.Count()
		if err == nil && n == 0 {
			err = errors.New("the driver knows none")
		}
		if err != nil {
			return nil, fmt.Errorf("no GPU to run trials on (leave out --device cuda): %w", err)
		}
	}
	for _, group := range fs {
		for _, p := range slices.Concat(ps...) {
			happens := false
			for _, f := range group {
				if !f.runs(p) {
					continue
				}
				happens = true
				c := &Cell{Fault: f.Name, Phase: p.Name, Outcomes: map[string]int{}, Untried: outOfTime}
				if r.res.Cells = append(r.res.Cells, c); r.CUDA && p.Name == "proxy" {
					c.Untried = "the phase needs host memory"
				} else if err := f.possible(r.Program[0]); err != nil {
					c.Untried = "not possible here: " + err.Error()
				} else {
					kinds = append(kinds, kind{f, p, c})
				}
			}
			if !happens && len(r.Faults) > 0 && len(r.Phases) > 0 {
				name := group[0].Name
				if len(group) > 1 {
					name, _, _ = strings.Cut(name, "-")
				}
				r.res.Cells = append(r.res.Cells, &Cell{Fault: name, Phase: p.Name,
					Untried: "the fault does not happen in this phase (see --list)"})
			}
		}
	}
	return kinds, nil
}

// judge completes the result. Where the names of faults are given, every cell has to be tried; else those that are
// possible here.
func (r *run) judge() {
	r.res.judge(func(c *Cell) bool { return len(r.Faults) > 0 || c.Untried == outOfTime })
}

// trial performs trial i of a cell.
func (r *run) trial(k kind, i int) {
	t := draw(k.f, k.p, r.Seed, i, r.Ranks)
	t.CUDA, t.Shared, t.Slow = r.CUDA, r.Unjudged() != "", r.Slow
	v := t.run(k.f, k.p, r.Program)
	r.mu.Lock()
	defer r.mu.Unlock()
	k.c.Untried = ""
	if k.c.add(i, t, v); k.c.Trials == r.Trials {
		fmt.Fprintln(r.Out, k.c)
	}
	r.res.Seconds = time.Since(r.res.Began).Seconds()
	r.judge()
	if r.Save != nil && r.err == nil {
		r.err = r.Save(r.res, false)
	}
}

// choose returns the members of all that each of names selects: the one with that name, or else all whose names begin
// with it and "-".
func choose[T interface{ name() string }](all []T, names []string) (groups [][]T, err error) {
	var known []string
	for _, x := range all {
		if known = append(known, x.name()); len(names) == 0 {
			groups = append(groups, []T{x})
		}
	}
	for _, n := range names {
		var group []T
		for _, x := range all {
			if x.name() == n {
				group = []T{x}
				break
			}
			if strings.HasPrefix(x.name(), n+"-") && !slices.Contains(known, n) {
				group = append(group, x)
			}
		}
		if len(group) == 0 {
			return nil, fmt.Errorf("there is no %q; choose among %s", n, strings.Join(known, ", "))
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// List describes the faults and the phases.
func List(w io.Writer) {
	fmt.Fprintln(w, "faults:")
	for _, f := range faults() {
		var in []string
		for _, p := range phases() {
			if f.runs(p) {
				in = append(in, p.Name)
			}
		}
		fmt.Fprintf(w, "  %-18s %s\n  %18s in %s\n", f.Name, f.Help, "", strings.Join(in, ", "))
	}
	fmt.Fprintln(w, "phases:")
	for _, p := range phases() {
		fmt.Fprintf(w, "  %-18s %s\n", p.Name, p.Help)
	}
}
