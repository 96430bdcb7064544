package contract_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine/moe"
	"github.com/goccl/goccl/internal/driver"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/mockcuda"
)

// live counts the driver's objects.
func live(t *testing.T) (n [mockcuda.NumCounts]int) {
	t.Helper()
	for i := range n {
		var err error
		if n[i], err = driver.DeviceAttribute(0, driver.Attribute(mockcuda.CountAttribute+i)); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// kernelsWait makes kernels of collectives wait until the test ends or waits is called with false. quiet fails the
// test if a call of the driver needed an idle GPU since the last call.
func kernelsWait(t *testing.T) (waits func(bool), quiet func(when string)) {
	t.Helper()
	trace, err := commtest.MockTrace()
	if err != nil {
		t.Fatal(err)
	}
	waits = func(on bool) {
		if trace.Weaken(0); on {
			trace.Weaken(mockcuda.KernelsWait)
		}
	}
	t.Cleanup(func() { waits(false) })
	trace.Waited()
	return waits, func(when string) {
		t.Helper()
		if name := trace.Waited(); name != "" {
			t.Errorf("%s calls %s, which may wait for the kernels that run: GPUs can wait for each other", when, name)
		}
	}
}

// use does what communicators can be used for, once; kernels may wait. all adds what takes seconds.
func use(c *goccl.Comm, program *plan.Plan, all bool) (closed func() error, err error) {
	ctx := context.Background()
	var close []func() error
	closed = func() error {
		var errs []error
		for _, f := range close {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	s, err := c.Device().NewStream()
	if err != nil {
		return closed, err
	}
	mem, err := c.Device().Alloc(16 << 20)
	if err != nil {
		return closed, errors.Join(err, s.Close())
	}
	close = append(close, c.Close, s.Close, mem.Close)
	p := mem.Ptr()
	steps := []func() error{
		func() error { return c.RegisterPlan(ctx, program) },
		func() error { return c.AllReduce(p, p, 3000, datatype.Float32, datatype.Sum, s) },
		func() error { return c.AllReduce(p, p, 2<<20, datatype.Float32, datatype.Sum, s) },
		func() error { _, err := c.RegisterWindow(p, 8<<20); return err },
		func() error {
			w, err := c.RegisterFlat(p.Add(8<<20), 8<<20)
			if err != nil {
				return err
			}
			if err := w.Await(); err != nil {
				return err
			}
			return c.PutSignal(w, 0, p, 4096, (c.Rank()+1)%c.WorldSize(), goccl.SignalID{}, s)
		},
		func() error { _, err := c.NewFusion(ctx, goccl.FusionConfig{}); return err },
		func() error { _, err := c.NewMoE(ctx, moe.Size{Bytes: 1 << 20}); return err },
	}
	if !all {
		steps = steps[:len(steps)-2]
	}
	for i, f := range steps {
		if err := f(); err != nil {
			return closed, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return closed, nil
}

// Three threads of each rank make communicators, use them and close them, while kernels of others wait on every GPU.
// No call may need an idle GPU: a kernel may wait for a peer whose thread is in such a call.
func TestOnMockSetUpWhileKernelsWait(t *testing.T) {
	const n, threads, turns = 2, 3, 2
	commtest.NeedMock(t)
	program := buildPlan(t, "allreduce_twoshot_ll", n)
	waits, quiet := kernelsWait(t)
	parents := make([][]*goccl.Comm, threads)
	for k := range parents {
		parents[k] = commtest.OnMock(t, n, nil)
	}
	quiet("the set-up of parents")
	waits(true)
	var streams [n]*cuda.Stream
	for r, c := range parents[0] {
		streams[r] = commtest.MockStream(t, c)
		p := commtest.Scratch(t, c)
		if err := c.AllReduce(p, p, 3000, datatype.Float32, datatype.Sum, streams[r]); err != nil {
			t.Fatal(err)
		}
	}
	quiet("a first launch")
	var all sync.WaitGroup
	for k := range threads {
		all.Go(func() {
			for turn := range turns {
				if err := commtest.Each(n, func(r int) error {
					c, err := parents[k][r].Split(t.Context(), 0, r*(1-2*(k%2)))
					if err != nil {
						return err
					}
					closed, err := use(c, program, k+turn == 0)
					return errors.Join(err, closed())
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	quiet("the life of a child")
	for _, s := range streams {
		if done, err := s.Query(); done || err != nil {
			t.Errorf("the parents' kernels do not wait: %v, %v", done, err)
		}
	}
	waits(false)
	for _, s := range streams {
		if err := s.Synchronize(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Communicators that come and go leave nothing behind, with and without another one that stays. GOCCL_FULL=1: 200 of
// them.
func TestOnMockCyclesAreFlat(t *testing.T) {
	commtest.NeedMock(t)
	cycles := 10
	if os.Getenv("GOCCL_FULL") != "" {
		cycles = 200
	}
	program := buildPlan(t, "allreduce_twoshot_ll", 2)
	waits, _ := kernelsWait(t)
	cycle := func(parents []*goccl.Comm, all bool) {
		t.Helper()
		var comms []*goccl.Comm
		if parents != nil {
			comms = commtest.Split(t, parents, func(int) int { return 0 }, func(r int) int { return r })
		} else {
			comms = commtest.OnMock(t, 2, nil)
		}
		waits(true)
		if err := commtest.Each(2, func(r int) error {
			closed, err := use(comms[r], program, all)
			return errors.Join(err, closed())
		}); err != nil {
			t.Fatal(err)
		}
		waits(false)
	}
	var open [2]device.Device // as capi has them
	for i := range open {
		d, err := cuda.Open(i)
		if err != nil {
			t.Fatal(err)
		}
		open[i] = d
		t.Cleanup(func() { _ = d.Close() })
	}
	for _, parents := range [][]*goccl.Comm{nil, commtest.OnMock(t, 2, nil)} {
		cycle(parents, true)
		before, running := live(t), runtime.NumGoroutine()
		for i := range cycles {
			cycle(parents, i == 0)
		}
		if after := live(t); after != before {
			t.Errorf("objects of the driver before %v, after %v (regions, streams, events, graphs, modules, VMM handles, "+
				"context references)", before, after)
		}
		for wait := 0; runtime.NumGoroutine() > running+cycles/2; wait++ { // some end in the background
			if time.Sleep(10 * time.Millisecond); wait == 1000 {
				t.Fatalf("%d goroutines before, %d after", running, runtime.NumGoroutine())
			}
		}
	}
}
