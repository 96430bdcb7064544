package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/bench/internal/figure"
	"github.com/goccl/goccl/bench/internal/ranks"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/job/bootstrap"
)

// The targets, for 8 × H200.
const (
	targetStart  = 500 // ms
	targetMemory = 64  // MiB, of the first communicator

	targetFurther = 8 // MiB, of each further one

	targetAbove = 1.5 // µs
	repeats     = 5   // number of communicators, and of batches of calls; the median is reported
)

// rank is one rank of the measurement.
type rank struct {
	ranks.Group
	dev    device.Device
	stream device.Stream
	mem    device.Allocation
	report *figure.Report // of rank 0
}

// rank joins the others and measures.
//
//  1. join       the bootstrap; its time is part of start
//  2. device     the GPU's context is created; its time is reported separately, and so is the wait for the slowest rank
//  3. first      the first communicator, up to the end of its first operation
//  4. calls      the CPU time and the allocations of calls, with that communicator
//  5. repeat     more communicators, one after the other
//
// Each reported value is the maximum over the ranks.
func (o *options) rank(ctx context.Context, env bootstrap.Env) (err error) {
	r := &rank{}
	if r.Bootstrap, err = bootstrap.Join(ctx, env); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Bootstrap.Close()) }()
	joined := time.Since(started)
	if err := r.Meet(ctx); err != nil {
		return err
	}

	begin := time.Now()
	if r.dev, err = o.Open(r); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.dev.Close()) }()
	opened := time.Since(begin)
	if r.Rank() == 0 {
		r.report = figure.New(ctx, r.WorldSize(), r.dev, o.Device == "cuda")
	}
	if r.stream, err = r.dev.NewStream(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stream.Close()) }()
	if r.mem, err = r.dev.Alloc(memoryBytes); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.mem.Close()) }()
	if err := r.measure(ctx, joined, opened); err != nil {
		return fmt.Errorf("rank %d: %w", r.Rank(), err)
	}
	if r.report != nil && o.JSON != "" {
		return r.report.Write(o.JSON)
	}
	return nil
}

// tell gathers a number of each rank and reports the largest.
func (r *rank) tell(ctx context.Context, f figure.Figure, mine float64) error {
	all, err := r.All(ctx, mine)
	if err != nil || r.report == nil {
		return err
	}
	f.Value = slices.Max(all)
	r.report.Add(f)
	return nil
}

// memory returns the GPU memory in use, by all processes.
func (r *rank) memory() (int64, error) {
	d, ok := r.dev.(*cuda.Device)
	if !ok {
		return 0, nil
	}
	free, total, err := d.MemoryInfo()
	return total - free, err
}

const mib = 1 << 20

func (r *rank) measure(ctx context.Context, joined, opened time.Duration) (err error) {
	if err := r.Meet(ctx); err != nil {
		return err
	}
	before, err := r.memory()
	if err != nil {
		return err
	}
	if err := r.Meet(ctx); err != nil { // no rank begins while another still measures
		return err
	}
	first, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, first.Close()) }()
	for _, f := range []struct {
		figure.Figure
		mine time.Duration
	}{
		{figure.Figure{Name: "communicator_start", Target: figure.UpTo(targetStart),
			Detail: "bootstrap_join, engine_setup and first_operation: from the start of main to the end of the first " +
				"barrier, without making the GPU's context and waiting for the slowest to do so"},
			joined + first.setup + first.operation},
		{figure.Figure{Name: "bootstrap_join", Detail: "from the start of main until the ranks know each other"}, joined},
		{figure.Figure{Name: "engine_setup", Detail: "NewComm: its group of the bootstrap, the kernels' modules, the " +
			"shared windows"}, first.setup},
		{figure.Figure{Name: "first_operation", Detail: "a barrier of the communicator, until it is over"}, first.operation},
		{figure.Figure{Name: "device_open", Detail: "not in communicator_start: the driver's start and the GPU's context"},
			opened},
	} {
		f.Unit = "ms"
		if err := r.tell(ctx, f.Figure, f.mine.Seconds()*1e3); err != nil {
			return err
		}
	}
	held := func(name, detail string, than int64) error {
		if r.dev.ID().Kind == device.Host {
			return nil
		}
		now, err := r.memory()
		if err != nil {
			return err
		}
		return r.tell(ctx, figure.Figure{Name: name, Unit: "MiB", Target: figure.UpTo(targetMemory),
			Detail: detail + "; by cuMemGetInfo, so no other process may use the GPUs"}, float64(now-than)/mib)
	}
	if err := held("communicator_memory",
		"GPU memory that is used since the GPU's context was made, after the first operation", before); err != nil {
		return err
	}
	if err := r.calls(ctx, first.Comm); err != nil {
		return err
	}
	if err := held("communicator_memory_after_calls", "the same after every kind of call below", before); err != nil {
		return err
	}
	if err := r.repeat(ctx); err != nil {
		return err
	}
	if r.dev.ID().Kind == device.CUDA {
		if err := errors.Join(r.several(ctx), r.cycles(ctx)); err != nil {
			return err
		}
	}
	return r.Meet(ctx) // no rank leaves while a peer may use its memory
}

// opened is a communicator and its set-up times.
type opened struct {
	*goccl.Comm
	setup, operation time.Duration
}

// open makes a communicator and runs its first operation.
func (r *rank) open(ctx context.Context) (c opened, err error) {
	begin := time.Now()
	if c.Comm, err = goccl.NewComm(ctx, goccl.Config{Bootstrap: r.Bootstrap, Device: r.dev,
		OpTimeout: ranks.Wait}); err != nil {
		return c, err
	}
	c.setup = time.Since(begin)
	if err = c.Barrier(r.stream); err == nil {
		err = r.wait(ctx, c.Comm)
	}
	if err != nil {
		return c, errors.Join(err, c.Close())
	}
	c.operation = time.Since(begin) - c.setup
	return c, nil
}

func (r *rank) wait(ctx context.Context, c *goccl.Comm) error {
	ctx, cancel := context.WithTimeout(ctx, ranks.Wait)
	defer cancel()
	return c.Synchronize(ctx, r.stream)
}

// repeat makes communicators while the first one exists: the cost for a program that splits its ranks.
func (r *rank) repeat(ctx context.Context) error {
	var times []float64
	for range repeats {
		if err := r.Meet(ctx); err != nil {
			return err
		}
		c, err := r.open(ctx)
		if err != nil {
			return err
		}
		all, err := r.All(ctx, (c.setup+c.operation).Seconds()*1e3)
		if err == nil {
			err = c.Finalize(ctx)
		}
		if err = errors.Join(err, c.Close()); err != nil {
			return err
		}
		times = append(times, slices.Max(all))
	}
	slices.Sort(times)
	return r.tell(ctx, figure.Figure{Name: "communicator_again", Unit: "ms", Target: figure.UpTo(targetStart),
		Detail: fmt.Sprintf("NewComm of ranks that are joined, and its first barrier: median of %d communicators, from "+
			"%.1f to %.1f", repeats, times[0], times[repeats-1])}, times[repeats/2])
}

// several measures the GPU memory of further communicators of the same ranks, of which 8 and 64 are open.
func (r *rank) several(ctx context.Context) (err error) {
	before, err := r.memory()
	if err != nil {
		return err
	}
	var open []opened
	defer func() {
		for _, c := range open {
			err = errors.Join(err, c.Finalize(ctx), c.Close())
		}
	}()
	for _, n := range []int{1, 8, 64} {
		for len(open) < n {
			c, err := r.open(ctx)
			if err != nil {
				return err
			}
			open = append(open, c)
		}
		if err := r.Meet(ctx); err != nil {
			return err
		}
		now, err := r.memory()
		if err != nil {
			return err
		}
		if err := r.tell(ctx, figure.Figure{Name: fmt.Sprintf("further_memory_%d", n), Unit: "MiB",
			Target: figure.UpTo(targetFurther), Detail: fmt.Sprintf("GPU memory of each of %d communicators that exist beside "+
				"the first, after its first operation", n)}, float64(now-before)/mib/float64(n)); err != nil {
			return err
		}
	}
	return nil
}

// cycles measures the GPU memory that communicators leave which are made and closed one after the other.
func (r *rank) cycles(ctx context.Context) error {
	begin, err := r.memory()
	if err != nil {
		return err
	}
	for i := range 100 {
		c, err := r.open(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(c.Finalize(ctx), c.Close(), r.Meet(ctx)); err != nil {
			return err
		}
		if i != 11 && i != 99 {
			continue
		}
		now, err := r.memory()
		if err != nil {
			return err
		}
		if err := r.tell(ctx, figure.Figure{Name: fmt.Sprintf("left_after_%d_cycles", i+1), Unit: "MiB",
			Target: figure.UpTo(0), Detail: "growth of the GPU memory in use since the first cycle of making and closing a " +
				"communicator"}, float64(now-begin)/mib); err != nil {
			return err
		}
	}
	return nil
}

// memoryBytes is the size of the memory for calls: a send half and a receive half.
const memoryBytes = 1 << 20

// call is an eager call.
type call struct {
	name, detail string
	run          func() error
}

func (r *rank) kinds(c *goccl.Comm) []call {
	n, me := c.WorldSize(), c.Rank()
	send, recv := r.mem.Ptr(), r.mem.Ptr().Add(memoryBytes/2)
	const count = 256 // of float32
	counts, displs := make([]int64, n), make([]int64, n)
	for i := range n {
		counts[i], displs[i] = int64(count/n), int64(i*(count/n))
	}
	return []call{
		{"all_reduce", "1 KiB",
			func() error { return c.AllReduce(send, recv, count, datatype.Float32, datatype.Sum, r.stream) }},
		{"broadcast", "1 KiB", func() error { return c.Broadcast(send, recv, count, datatype.Float32, 0, r.stream) }},
		{"send_recv", "1 KiB to the next rank and from the one before, as one group",
			ring(c, send, recv, count, (me+1)%n, (me+n-1)%n, r.stream)},
		{"all_to_all_v", fmt.Sprintf("%d bytes to each rank", 4*(count/n)),
			func() error {
				return c.AllToAllV(send, counts, displs, recv, counts, displs, datatype.Float32, r.stream)
			}},
	}
}
