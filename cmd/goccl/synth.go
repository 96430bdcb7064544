package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccl/goccl/cmd/goccl/internal/fabrics"
	"github.com/goccl/goccl/cmd/goccl/internal/query"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/printable"
	"github.com/goccl/goccl/job/topo"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/plan/fabric"
	"github.com/goccl/goccl/plan/simulate"
	"github.com/goccl/goccl/plan/synth"
)

type synthCommand struct {
	Collective string        `required:"" help:"all_gather, reduce_scatter, all_reduce, broadcast or all_to_all."`
	Topo       string        `required:"" placeholder:"FILE" help:"A topology (docs/synth.md), what goccl topo --json wrote, or the name of one that ships with goccl."`
	Hosts      int           `default:"1" help:"Machines, where FILE describes one (default ${default})."`
	Size       int64         `type:"size" short:"b" default:"64M" placeholder:"SIZE" help:"Message for which the plan is to be fast (default 64M)."`
	Root       int           `help:"Root of a broadcast."`
	InPlace    bool          `help:"Input and output in one memory."`
	Machine    string        `default:"h200" help:"Model of the thread blocks: a machine that ships with goccl, or a file of one."`
	Out        string        `short:"o" placeholder:"FILE" help:"Write the plan here."`
	SVG        string        `name:"svg" placeholder:"FILE" help:"Draw the plan: links over time."`
	Measure    int           `placeholder:"N" help:"Execute the N fastest candidates, check their results, and take the fastest."`
	Device     string        `enum:"auto,host,cuda" default:"auto" help:"Where to measure: auto, host or cuda. auto is cuda where every rank has a GPU."`
	Timeout    time.Duration `default:"30s" help:"Bound on every wait of a measurement (default ${default})."`
	Only       bool          `help:"Leave out the programs that ship with goccl."`
	All        bool          `help:"Print every candidate, not the first five."`
}

func (c *synthCommand) Run(ctx context.Context, s *streams) error {
	collective, err := planCollective(c.Collective)
	if err != nil {
		return &exitError{2, err}
	}
	g, err := topology(c.Topo, c.Hosts)
	if err != nil {
		return err
	}
	if c.Root < 0 || c.Root >= g.Ranks() {
		return &exitError{2, fmt.Errorf("root %d of %d ranks", c.Root, g.Ranks())}
	}
	m, err := machineModel(c.Machine)
	if err != nil {
		return err
	}
	start := time.Now()
	done := s.busy("searching")
	r, err := query.Ask(ctx, func() (*synth.Result, error) {
		return synth.Run(synth.Options{Graph: g, Collective: collective, Root: c.Root, InPlace: c.InPlace, Only: c.Only,
			Size: c.Size, Machine: m})
	})
	done()
	if err != nil {
		return err
	}
	c.report(s, g, r, time.Since(start))
	if err := c.measure(ctx, s.out, r); err != nil {
		return err
	}
	if c.SVG != "" {
		if err := os.WriteFile(c.SVG, simulate.RenderLinks(r.Simulated), 0o644); err != nil {
			return err
		}
	}
	if c.Out == "" {
		return nil
	}
	return os.WriteFile(c.Out, r.Plan.Encode(), 0o644)
}

func (c *synthCommand) report(s *streams, g *fabric.Graph, r *synth.Result, took time.Duration) {
	fmt.Fprintf(s.out, "%s: %s over %d ranks, %d bytes\n", g.Name, r.Plan.Collective, g.Ranks(), r.Simulated.Size)
	if b := r.Bound; b != nil {
		each, what := "root", "tree"
		if b.Pairs {
			each, what = "pair", "path"
		}
		fmt.Fprintf(s.out, "best rate of any plan: %.4g GB/s for each %s: %s\n", b.GBps, each, b.Reason(g))
		fmt.Fprintf(s.out, "no plan takes less than %.2f us; this one takes %.2f times that", r.BoundMicros,
			r.Simulated.Micros/r.BoundMicros)
		if r.Trees > 0 {
			fmt.Fprintf(s.out, ", with %s per %s", printable.Count(r.Trees, what), each)
		}
		fmt.Fprintln(s.out)
	}
	for i, k := range r.Candidates {
		if i >= 5 && !c.All && !k.Shipped {
			continue
		}
		mark := " "
		if k.Name == r.Best.Name {
			mark = "*"
		}
		if k.Err != nil {
			if c.All || k.Shipped {
				fmt.Fprintf(s.out, "%s %12s    %s: %v\n", mark, "-", k.Name, k.Err)
			}
			continue
		}
		fmt.Fprintf(s.out, "%s %12.2f us %s\n", mark, k.Micros, k.Name)
	}
	fmt.Fprintf(s.out, "proven: %d launches in a row, %s; searched in %v\n", r.Checked.Launches,
		printable.Count(r.Checked.Shapes, "message shape"), took.Round(time.Millisecond))
	if r.Best.Shipped {
		fmt.Fprintln(s.out, "a plan that ships with goccl is the fastest")
	}
}

// planCollective accepts the names of goccl perf and of plans.
func planCollective(name string) (plan.Collective, error) {
	c := plan.Collective(strings.NewReplacer("_", "", "-", "").Replace(name))
	if !c.Known() {
		return "", fmt.Errorf("no collective %q: use all_gather, reduce_scatter, all_reduce, broadcast or all_to_all", name)
	}
	return c, nil
}

// topology reads a graph, or a machine, or finds a graph that ships with goccl.
func topology(name string, hosts int) (*fabric.Graph, error) {
	data, builtIn, err := readNamed(name, maxTextBytes)
	if err != nil {
		return nil, err
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(bytes.TrimSpace(data), &keys) == nil && keys["gpus"] != nil {
		m, err := topo.Decode(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return fabrics.OfMachine(m, hosts)
	}
	var g *fabric.Graph
	if builtIn {
		if g, err = fabric.Example(name); err != nil {
			return nil, &exitError{2, err}
		}
	} else if g, err = fabric.Parse(data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if hosts != 1 {
		return nil, &exitError{2, fmt.Errorf("--hosts: %s describes all of its GPUs, not one machine: leave it out", name)}
	}
	return g, nil
}

// measure runs the n fastest proven candidates on devices, checks their results, and makes the fastest the result.
func (c *synthCommand) measure(ctx context.Context, out io.Writer, r *synth.Result) error {
	run := planRun{Device: c.Device}
	open, err := run.open(len(r.Plan.GPUs))
	if err != nil {
		return err
	}
	var best time.Duration
	tried := 0
	for i := 0; i < len(r.Candidates) && tried < c.Measure && r.Candidates[i].Err == nil; i++ {
		k := &r.Candidates[i]
		p, err := k.Prove()
		if err != nil {
			fmt.Fprintf(out, "not measured: %s: %v\n", k.Name, err)
			continue
		}
		tried++
		took, err := c.time(ctx, p, open, r.Simulated.Size)
		if err != nil {
			return fmt.Errorf("%s: %w", k.Name, err)
		}
		fmt.Fprintf(out, "measured on %s: %10.1f us %s\n", run.kind(len(p.GPUs)), float64(took)/1e3, k.Name)
		if best == 0 || took < best {
			best, r.Plan, r.Best = took, p, *k
		}
	}
	return nil
}

// time executes a plan on known data and returns the time of an execution.
func (c *synthCommand) time(ctx context.Context, p *plan.Plan, open func(int) (device.Device, error),
	size int64) (time.Duration, error) {
	var all []time.Duration
	o := planrun.Options{Plan: p, Timeout: c.Timeout, Trusted: true, Open: open,
		Report: func(_ planrun.Case, took time.Duration) { all = append(all, took) }}
	unit := p.EvenUnit()
	message := max(uint64(size)/unit, 1) * unit
	o.Cases = []planrun.Case{{Message: message, Type: datatype.Float32, Op: planrun.Operator(p, datatype.Sum),
		Times: 10, Seed: 1, Fresh: rounds}}
	if p.InPlace {
		o.Cases[0].InPlace, o.Cases[0].Times = true, 1
	}
	if err := planrun.Threads(ctx, o); err != nil {
		return 0, err
	}
	return slices.Max(all), nil
}
