package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/plan/synth"
)

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
