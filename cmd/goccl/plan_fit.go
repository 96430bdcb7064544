package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/goccl/goccl/cmd/goccl/internal/perf"
	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/simulate"
)

// planTime is a measured time of a built-in program. plan run writes files of them and plan fit reads them. A file is a
// JSON array.
type planTime struct {
	Program   string  `json:"program"`
	Ranks     int     `json:"ranks"`
	Hosts     int     `json:"hosts,omitempty"`
	Instances int     `json:"instances,omitempty"` // 0: the program's default
	InPlace   bool    `json:"in_place,omitempty"`
	Size      int64   `json:"size"` // bytes of the message, as plan simulate defines it
	Micros    float64 `json:"us"`   // of one launch
	Device    string  `json:"device,omitempty"`
	Graph     bool    `json:"graph,omitempty"` // replayed from a graph: without the cost of launching from the host
}

type planFit struct {
	Files   []string `arg:"" name:"file" help:"Times that goccl plan run --json wrote."`
	Machine string   `default:"h200" help:"Where to start from: a machine that ships with goccl, or a file of one."`
	HoldOut []int    `name:"hold-out" placeholder:"RANKS" help:"World sizes that are not fitted but predicted, separated by commas."`
	Step    float64  `name:"step-us" placeholder:"US" help:"Step of the clock, in us a launch: a time may be too long by it."`
	Fix     []string `placeholder:"PARAMETER" help:"Parameters to leave as they are, separated by commas, like rail.nic_gbps."`
	Out     string   `short:"o" placeholder:"FILE" help:"Where to write the fitted machine. Default: nowhere, only the comparison is printed."`
}

func (c *planFit) Run(s *streams) error {
	defer s.busy("fitting")()
	m, err := machineModel(c.Machine)
	if err != nil {
		return err
	}
	var fit, held []simulate.Measurement
	for _, file := range c.Files {
		rows, err := readTimes(file, c.Step)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if slices.Contains(c.HoldOut, len(r.Plan.GPUs)) {
				held = append(held, r)
			} else {
				fit = append(fit, r)
			}
		}
	}
	opts := simulate.FitOptions{Each: atOnce}
	if len(c.Fix) > 0 {
		for _, name := range m.Parameters() {
			if v, err := m.Get(name); err == nil && v != 0 && !slices.Contains(c.Fix, name) {
				opts.Parameters = append(opts.Parameters, name)
			}
		}
	}
	f, err := simulate.Fit(m, fit, opts)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "before the fit: median error %.1f %%; after %d rounds over %d parameters:\n%v",
		100*f.Before.Median, f.Rounds, len(f.Parameters), f.After)
	if len(held) > 0 {
		report, err := simulate.Compare(f.Machine, held)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "\nheld out:\n%v", report)
	}
	if c.Out == "" {
		return nil
	}
	f.Machine.Source = fmt.Sprintf("fitted to %d times of %v by goccl plan fit; median error %.1f %%", len(fit), c.Files,
		100*f.After.Median)
	return os.WriteFile(c.Out, f.Machine.JSON(), 0o644)
}

// atOnce calls f for 0 … n − 1, on all processors.
func atOnce(n int, f func(i int)) {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		g.Go(func() error {
			f(i)
			return nil
		})
	}
	_ = g.Wait() // f has no errors
}

func readTimes(file string, step float64) ([]simulate.Measurement, error) {
	data, err := regular.Read(file, maxTextBytes)
	if err != nil {
		return nil, err
	}
	var rows []planTime
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, fmt.Errorf("%s is not a list of times (%s); goccl plan run --json writes such a file", file, inJSON(err))
	}
	plans := map[planTime]*plan.Plan{}
	var out []simulate.Measurement
	for i, r := range rows {
		key := planTime{Program: r.Program, Ranks: r.Ranks, Hosts: r.Hosts, Instances: r.Instances, InPlace: r.InPlace}
		p := plans[key]
		if p == nil {
			p, err = programs.Build(r.Program, programs.Options{Ranks: r.Ranks, Hosts: r.Hosts, Instances: r.Instances,
				InPlace: r.InPlace})
			if err != nil {
				return nil, fmt.Errorf("%s: row %d: %w", file, i+1, err)
			}
			plans[key] = p
		}
		out = append(out, simulate.Measurement{Plan: p, Size: r.Size, Micros: r.Micros, Step: step})
	}
	return out, nil
}

// inJSON says where a JSON file is wrong, in the words of the format.
func inJSON(err error) string {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return strings.TrimSpace(fmt.Sprintf("an unexpected %s at byte %d %s", t.Value, t.Offset, t.Field))
	}
	return err.Error()
}

// appendTimes adds rows to a file of times, which it creates if necessary.
func appendTimes(file string, rows []planTime) error {
	var all []planTime
	data, err := regular.Read(file, maxTextBytes)
	if err == nil {
		if err := json.Unmarshal(data, &all); err != nil {
			return fmt.Errorf("%s exists and is not a list of times (%s): choose another file", file, inJSON(err))
		}
	} else if !os.IsNotExist(err) {
		return err
	}
	return perf.SaveJSON(file, append(all, rows...), os.Stdout)
}
