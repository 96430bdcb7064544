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

// kind is a fault in a phase, and what came of it.
type kind struct {
	f *fault
	p *phase
	c *Cell
}

// run is a call of Run. mu guards what its workers share: the result with its cells, what is said and what is kept.
type run struct {
	Options
	mu  sync.Mutex
	res *Result
	err error // of Save
}

// Run performs the trials, a few of each cell in turn, until ctx ends.
func Run(ctx context.Context, o Options) (*Result, error) {
	fs, err := choose(faults(), o.Faults)
	if err != nil {
		return nil, err
	}
	ps, err := choose(phases(), o.Phases)
	if err != nil {
		return nil, err
	}
	if o.CUDA {
		n, err := cuda.Count()
		if err == nil && n == 0 {
			err = errors.New("the driver knows none")
		}
		if err != nil {
			return nil, fmt.Errorf("no GPU to run trials on (leave out --device cuda): %w", err)
		}
	}
	var kinds []kind
	all := &run{Options: o, res: newResult(o)}
	for _, f := range fs {
		for _, p := range ps {
			if f.runs(p) && f.possible(o.Program[0]) == nil && (!o.CUDA || p.Name != "proxy") && (o.CUDA || !f.gpu) {
				c := &Cell{Fault: f.Name, Phase: p.Name, Outcomes: map[string]int{}}
				kinds, all.res.Cells = append(kinds, kind{f, p, c}), append(all.res.Cells, c)
			}
		}
	}
	type part struct {
		kind
		first int
	}
	parts := make(chan part)
	var workers sync.WaitGroup
	for range max(1, o.Jobs) {
		workers.Go(func() {
			for p := range parts {
				all.trials(ctx, p.kind, p.first)
			}
		})
	}
	for first := 0; first < o.Trials; first += turn {
		for _, k := range kinds {
			if ctx.Err() == nil {
				parts <- part{k, first}
			}
		}
	}
	close(parts)
	workers.Wait()
	if ctx.Err() != nil {
		for _, k := range kinds {
			if k.c.Trials < o.Trials { // the others have been printed
				fmt.Fprintln(o.Out, k.c)
			}
		}
	}
	return all.res, errors.Join(all.err, ctx.Err())
}

// trials performs a turn of a cell, from trial first on.
func (r *run) trials(ctx context.Context, k kind, first int) {
	for i := first; i < min(first+turn, r.Trials) && ctx.Err() == nil; i++ {
		t := draw(k.f, k.p, r.Seed, i, r.Ranks)
		t.CUDA = r.CUDA
		v := t.run(k.f, k.p, r.Program)
		r.mu.Lock()
		if k.c.add(i, t, v); k.c.Trials == r.Trials {
			fmt.Fprintln(r.Out, k.c)
		}
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.res.Seconds = time.Since(r.res.Began).Seconds()
	if r.Save != nil && r.err == nil {
		r.err = r.Save(r.res)
	}
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
