package perf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/job/bootstrap"
)

// sample is the result of one batch for one operation on one rank, in seconds.
type sample struct {
	Time float64
	CPU  float64 // host time to enqueue it
}

// runner runs one library at one point: single operations, or a graph of them.
type runner struct {
	comm   Communicator
	submit func() error // one operation
	graph  Graph        // nil: eager
	ops    int          // number of operations in a run
}

func (r *runner) run(s device.Stream) error {
	if r.graph != nil {
		return r.graph.Launch(s)
	}
	return r.submit()
}

// Target duration of a batch, and the largest number of operations (with graphs: replays) in one. On the host device a
// batch begins when a barrier wakes the ranks. That may take milliseconds if they are processes and outnumber the
// processors. This time is part of the measurement, so batches of short operations get more of them there.
const (
	batchTime    = 20 * time.Millisecond
	crowdedTime  = 200 * time.Millisecond
	maxEager     = 2000
	maxCrowded   = 20000
	maxReplays   = 20
	graphTime    = 25 * time.Millisecond // target duration of a graph
	maxGraphOps  = 200
	absorbEager  = 5 // untimed operations before a batch
	absorbReplay = 1 // untimed replays; doubled before the first batch
)

// agree chooses the number of operations in a run (eager: one) and the number of runs in a batch. Values that are not
// configured follow from the time of the slowest rank of the slowest library.
func (m *measurement) agree(ctx context.Context, c *call) (ops, runs int, err error) {
	if m.cfg.Iters > 0 && m.cfg.GraphOps >= 0 {
		return max(1, m.cfg.GraphOps), m.cfg.Iters, nil
	}
	slowest, err := m.probe(ctx, c, 3)
	if err == nil && m.crowded && slowest < batchTime/3 { // most of the time went into waking the ranks
		slowest, err = m.probe(ctx, c, int(min(batchTime/slowest, maxEager)))
	}
	if err != nil {
		return 0, 0, err
	}
	ops, most, target := 1, maxEager, batchTime
	if m.crowded {
		most, target = maxCrowded, crowdedTime
	}
	switch {
	case m.cfg.GraphOps > 0:
		ops, most = m.cfg.GraphOps, maxEager
	case m.cfg.GraphOps == GraphAuto:
		ops, most = int(min(max(graphTime/slowest, 1), maxGraphOps)), maxReplays
	}
	if runs = m.cfg.Iters; runs == 0 {
		runs = int(min(max(target/(slowest*time.Duration(ops)), 1), time.Duration(most)))
	}
	return ops, runs, nil
}

// probe returns the time of an operation in a sequence of several, on the slowest rank of the slowest library.
func (m *measurement) probe(ctx context.Context, c *call, times int) (time.Duration, error) {
	var mine time.Duration
	for _, comm := range m.comms {
		if err := m.barrier(ctx); err != nil {
			return 0, err
		}
		r := runner{comm: comm, submit: func() error { return comm.Submit(c.requests...) }, ops: 1}
		if err := m.enqueue(ctx, &r, 1); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := m.enqueue(ctx, &r, times); err != nil {
			return 0, err
		}
		mine = max(mine, time.Since(start)/time.Duration(times))
	}
	all, err := m.all(ctx, binary.LittleEndian.AppendUint64(nil, uint64(mine)))
	if err != nil {
		return 0, err
	}
	slowest := time.Duration(1)
	for _, b := range all {
		if len(b) != 8 {
			return 0, errors.New("a rank does not tell its times: give every rank the same program")
		}
		slowest = max(slowest, time.Duration(binary.LittleEndian.Uint64(b)))
	}
	return slowest, nil
}

// batch times some runs, with the clock that suits the device.
func (m *measurement) batch(ctx context.Context, r *runner, runs int, o *outcome) error {
	if err := m.barrier(ctx); err != nil {
		return err
	}
	var s sample
	var err error
	switch {
	case m.cfg.Isolated:
		return m.isolated(ctx, r, runs, o)
	case m.Device.ID().Kind == device.CUDA:
		s, err = m.byEvents(ctx, r, runs, len(o.Samples) == 0)
	default:
		s, err = m.byClock(ctx, r, runs)
	}
	if err == nil {
		o.Samples = append(o.Samples, s)
	}
	return err
}

// byEvents times runs on a GPU.
//
//  1. absorb   untimed runs. In the first of them the ranks wait for each other. While they run, the host enqueues
//     ahead. So neither the different start times of the ranks nor the first launch is timed, and no host work delays
//     the timed runs
//  2. time     an event, the runs, an event
//  3. wait     the time of an operation is the time between the events; if the host enqueues slower than the GPU runs,
//     it is the host's time
func (m *measurement) byEvents(ctx context.Context, r *runner, runs int, first bool) (s sample, err error) {
	runtime.LockOSThread() // launches from another thread are slower
	defer runtime.UnlockOSThread()
	absorb := absorbEager
	if r.graph != nil {
		absorb = absorbReplay
		if first {
			absorb *= 2
		}
	}
	if err := repeat(ctx, absorb, func() error { return r.run(m.Stream) }); err != nil {
		return s, err
	}
	var host float64
	t, err := device.Timed(m.Stream, func() error {
		start := time.Now()
		err := repeat(ctx, runs, func() error { return r.run(m.Stream) })
		host = time.Since(start).Seconds()
		return err
	}, func() error { return m.wait(ctx, r.comm) })
	if err != nil {
		return s, err
	}
	ops := float64(runs * r.ops)
	if r.graph == nil {
		t = max(t, host)
	}
	return sample{Time: t / ops, CPU: host / ops}, nil
}

// aligner is a communicator that can synchronize the streams of the ranks.
type aligner interface {
	Barrier(s device.Stream) error
}

// byClock times runs on a device whose streams run on the host. The clock starts when the communicator's barrier
// returns on this rank, or, without a barrier, when an untimed run returns.
func (m *measurement) byClock(ctx context.Context, r *runner, runs int) (s sample, err error) {
	if a, ok := r.comm.(aligner); ok {
		err = a.Barrier(m.Stream)
	} else {
		err = r.run(m.Stream)
	}
	if err == nil {
		err = m.wait(ctx, r.comm)
	}
	if err != nil {
		return s, err
	}
	return m.clocked(ctx, r, runs)
}

// clocked times runs from the first call to the end of their work.
func (m *measurement) clocked(ctx context.Context, r *runner, runs int) (s sample, err error) {
	start := time.Now()
	if err := repeat(ctx, runs, func() error { return r.run(m.Stream) }); err != nil {
		return s, err
	}
	host := time.Since(start).Seconds()
	if err := m.wait(ctx, r.comm); err != nil {
		return s, err
	}
	ops := float64(runs * r.ops)
	return sample{Time: time.Since(start).Seconds() / ops, CPU: host / ops}, nil
}

// isolated times each run alone, from its call to its end.
func (m *measurement) isolated(ctx context.Context, r *runner, runs int, o *outcome) error {
	if err := m.enqueue(ctx, r, 1); err != nil {
		return err
	}
	for range runs {
		s, err := m.clocked(ctx, r, 1)
		if err != nil {
			return err
		}
		o.Samples = append(o.Samples, s)
	}
	return nil
}

// outcome is the data that a rank sends to the others about one library at one point.
type outcome struct {
	Samples      []sample
	Wrong, Stray int64
	Use          cuda.Use
	SMs          int // of the GPU
}

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
