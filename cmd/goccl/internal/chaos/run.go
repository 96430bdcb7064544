package chaos

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Options select the trials of Run.
type Options struct {
	Seed           uint64
	Trials, Ranks  int
	Faults, Phases []string // names; empty: all
	CUDA           bool     // on GPUs; without the phases that need host memory
	// Program is the command of a rank; a trial in JSON is its last argument.
	Program []string
	Out     io.Writer // a line for each cell
	// Save, if there is one, keeps what is known so far; it is called now and then.
	Save func(*Result) error
}

// turn is how many trials of a cell follow each other: a run that is ended early has about as many of each cell.
const turn = 5

// Run performs the trials, cell by cell, until ctx ends.
func Run(ctx context.Context, o Options) (*Result, error) {
	fs, err := choose(faults(), o.Faults)
	if err != nil {
		return nil, err
	}
	ps, err := choose(phases(), o.Phases)
	if err != nil {
		return nil, err
	}
	type kind struct {
		f *fault
		p *phase
		c *Cell
	}
	var kinds []kind
	res := newResult(o)
	for _, f := range fs {
		for _, p := range ps {
			if f.runs(p) && f.possible(o.Program[0]) == nil && (!o.CUDA || p.Name != "proxy") && (o.CUDA || !f.gpu) {
				c := &Cell{Fault: f.Name, Phase: p.Name, Outcomes: map[string]int{}}
				kinds, res.Cells = append(kinds, kind{f, p, c}), append(res.Cells, c)
			}
		}
	}
	for first := 0; first < o.Trials && ctx.Err() == nil; first += turn {
		for _, k := range kinds {
			for i := first; i < min(first+turn, o.Trials) && ctx.Err() == nil; i++ {
				t := draw(k.f, k.p, o.Seed, i, o.Ranks)
				t.CUDA = o.CUDA
				k.c.add(i, t, t.run(k.f, k.p, o.Program))
			}
			if first+turn >= o.Trials || ctx.Err() != nil {
				fmt.Fprintln(o.Out, k.c)
			}
			res.Seconds = time.Since(res.Began).Seconds()
			if o.Save != nil {
				if err := o.Save(res); err != nil {
					return res, err
				}
			}
		}
	}
	return res, ctx.Err()
}

func choose[T interface{ name() string }](all []T, names []string) ([]T, error) {
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, x := range all {
		known = append(known, x.name())
	}
	var out []T
	for _, n := range names {
		i := slices.Index(known, n)
		if i < 0 {
			return nil, fmt.Errorf("there is no %q; choose among %s", n, strings.Join(known, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// List describes the faults and the phases.
func List(w io.Writer) {
	fmt.Fprintln(w, "faults:")
	for _, f := range faults() {
		fmt.Fprintf(w, "  %-18s %s\n", f.Name, f.Help)
	}
	fmt.Fprintln(w, "phases:")
	for _, p := range phases() {
		fmt.Fprintf(w, "  %-18s %s\n", p.Name, p.Help)
	}
}
