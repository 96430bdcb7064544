package perf

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/job/bootstrap"
)

// outcome is the data that a rank sends to the others about one library at one point.
type outcome struct {
	Samples      []sample
	Wrong, Stray int64
	Use          cuda.Use
	SMs          int // of the GPU
}

// gather combines the outcomes of all ranks.
func (m *measurement) gather(ctx context.Context, g *geometry, inPlace bool, ops, runs int, mine []outcome) ([]Row,
	error) {
	ranks, err := bootstrap.GatherJSON(ctx, m.all, "results", mine)
	if err != nil {
		return nil, err
	}
	for r := range ranks {
		if len(ranks[r]) != len(mine) {
			return nil, fmt.Errorf("rank %d measured %d libraries, rank %d %d: give every rank the same arguments", r,
				len(ranks[r]), m.me, len(mine))
		}
	}
	rows := make([]Row, len(mine))
	for i := range mine {
		row := Row{Library: m.Libraries[i].Name(), Size: g.size, Count: g.count, Type: g.typ.String(), Op: "none",
			Root: g.root, InPlace: inPlace,
			Iters: ops * runs}
		if m.cfg.GraphOps != 0 {
			row.GraphOps = ops
		}
		if g.kind.HasOp() {
			row.Op = g.op.String()
		}
		slowest := make([]sample, len(mine[i].Samples))
		for r := range ranks {
			o := ranks[r][i]
			if len(o.Samples) != len(slowest) {
				return nil, fmt.Errorf("rank %d took %d samples, rank %d %d: give every rank the same arguments", r, len(o.Samples),
					m.me, len(slowest))
			}
			row.Wrong += o.Wrong
			row.Stray += o.Stray
			row.Blocks, row.Copies = max(row.Blocks, o.Use.Blocks), row.Copies || o.Use.Copies
			row.SMs = max(row.SMs, min(o.Use.Blocks, o.SMs))
			for k, s := range o.Samples {
				slowest[k].Time = max(slowest[k].Time, s.Time)
				slowest[k].CPU = max(slowest[k].CPU, s.CPU)
			}
		}
		if !m.cfg.Check {
			row.Wrong = -1
		}
		row.Refused = m.Limits.check(g, row.summarize(g, slowest))
		if i > 0 && rows[0].Time > 0 {
			row.Ratio = row.Time / rows[0].Time
		}
		rows[i] = row
	}
	return rows, nil
}

// summarize computes the figures from the samples and returns the time of an operation in seconds.
func (r *Row) summarize(g *geometry, samples []sample) float64 {
	times, cpu := make([]float64, len(samples)), make([]float64, len(samples))
	var sum float64
	for i, s := range samples {
		times[i], cpu[i] = s.Time, s.CPU
		sum += s.Time
	}
	slices.Sort(times)
	slices.Sort(cpu)
	const us = 1e6
	n := len(times)
	t := times[n/2]
	r.Samples = n
	r.Time, r.Min, r.Mean, r.CPU = t*us, times[0]*us, sum/float64(n)*us, cpu[n/2]*us
	r.P99 = times[int(math.Ceil(float64(n)*0.99))-1] * us
	if t > 0 {
		r.AlgBW = float64(g.size) / t / 1e9
		r.BusBW = r.AlgBW * g.kind.BusFactor(g.n)
	}
	return t
}
