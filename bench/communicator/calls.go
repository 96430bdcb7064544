package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/bench/internal/figure"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/kernels/bench"
)

// batch is the number of calls that are timed in a row. The driver's queue takes some thousand entries, and a call is a
// few, so no call waits for the GPU.
const batch = 200

// ring is a send and a receive as one group; its requests are made once.
func ring(c *goccl.Comm, send, recv device.Ptr, count int64, to, from int, s device.Stream) func() error {
	group := []collective.Request{{Collective: collective.Send, Send: send, Count: count, Type: datatype.Float32, Peer: to,
		Stream: s},
		{Collective: collective.Recv, Recv: recv, Count: count, Type: datatype.Float32, Peer: from, Stream: s}}
	return func() error { return c.Submit(group...) }
}

// calls measures the host's time for a call, without waiting for its work.
func (r *rank) calls(ctx context.Context, c *goccl.Comm) error {
	launch, err := r.launches(ctx, c)
	if err != nil {
		return fmt.Errorf("bare launches: %w", err)
	}
	for _, k := range r.kinds(c) {
		us, allocs, err := r.timed(ctx, c, k.run)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		k.detail += fmt.Sprintf(": host time of a call that is not waited for, median of %d × %d", repeats, batch)
		f := figure.Figure{Name: "eager_" + k.name, Unit: "us", Detail: k.detail}
		if err := r.tell(ctx, f, us); err != nil {
			return err
		}
		if launch > 0 {
			f.Name, f.Target, f.Detail = f.Name+"_above_launch", figure.UpTo(targetAbove),
				"the same less driver_launch of the same rank"
			if err := r.tell(ctx, f, us-launch); err != nil {
				return err
			}
		}
		f = figure.Figure{Name: f.Name[:len("eager_")+len(k.name)] + "_allocations", Unit: "",
			Detail: "Go allocations of a call, as testing.AllocsPerRun counts them"}
		if r.dev.ID().Kind == device.CUDA { // on the host device the work itself runs in Go
			f.Target = figure.UpTo(0)
		}
		if err := r.tell(ctx, f, allocs); err != nil {
			return err
		}
	}
	return nil
}

// launches measures the host's time to launch a nearly empty kernel, with the driver call that launches collectives; 0
// on the host device.
func (r *rank) launches(ctx context.Context, c *goccl.Comm) (us float64, err error) {
	dev, ok := r.dev.(*cuda.Device)
	if !ok {
		return 0, nil
	}
	p := dev.Properties()
	image, err := bench.Group.Image(p.Major, p.Minor)
	if err != nil {
		return 0, err
	}
	m, err := dev.LoadModule(image)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	f, err := m.Function("measure_signal")
	if err != nil {
		return 0, err
	}
	var args cuda.Args // no round trips; a channel that is only read, followed by the time and the status
	args.Ptr(r.mem.Ptr()).Uint32(0).Uint32(0).Uint32(0).Ptr(r.mem.Ptr().Add(1024)).Ptr(r.mem.Ptr().Add(1032))
	s, shape := r.stream.(*cuda.Stream), cuda.Launch1D(1, 32, 0)
	us, _, err = r.timed(ctx, c, func() error { return s.LaunchRaw(f, &shape, args.Bytes()) })
	if err != nil {
		return 0, err
	}
	return us, r.tell(ctx, figure.Figure{Name: "driver_launch", Unit: "us",
		Detail: fmt.Sprintf("host time of the launch of a kernel that does nothing, median of %d × %d", repeats, batch)}, us)
}

// timed runs calls in batches. All ranks begin a batch together and wait for its work at its end. It returns the median
// over batches of the time per call, and the smallest number of allocations per call, over all goroutines.
func (r *rank) timed(ctx context.Context, c *goccl.Comm, run func() error) (us, allocs float64, err error) {
	runtime.LockOSThread() // launches from another thread are slower
	defer runtime.UnlockOSThread()
	var times []float64
	var counts []uint64
	for i := range repeats + 1 {
		if err := r.Meet(ctx); err != nil {
			return 0, 0, err
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begin := time.Now()
		for range batch {
			if err := run(); err != nil {
				return 0, 0, err
			}
		}
		took := time.Since(begin)
		runtime.ReadMemStats(&after)
		if err := r.wait(ctx, c); err != nil {
			return 0, 0, err
		}
		if i > 0 { // the first batch is a warm-up
			times = append(times, took.Seconds()*1e6/batch)
			counts = append(counts, (after.Mallocs-before.Mallocs)/batch)
		}
	}
	slices.Sort(times)
	return times[repeats/2], float64(slices.Min(counts)), nil
}
