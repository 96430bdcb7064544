package gpu_test

import (
	"context"
	"errors"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/mockcuda"
)

// inAnyOrder runs do on a driver that executes operations in any permitted order, and checks that the kernels ran in
// the order of the host's calls.
func inAnyOrder(t *testing.T, owner func(mockcuda.Call) uint64, do func(seed uint64) error) {
	t.Helper()
	trace, err := commtest.MockTrace()
	if err != nil {
		t.Fatal(err)
	}
	for seed := uint64(1); seed <= 3; seed++ {
		trace.Start()
		trace.Seed(seed)
		err := do(seed)
		trace.Seed(0)
		calls, e := trace.Stop()
		if err = errors.Join(err, e); err == nil {
			err = mockcuda.InOrder(calls, owner)
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// The calls of the tests TestGPUOrder…, without their data, which need GPUs.
func TestOnMockOrder(t *testing.T) {
	const n, comms = 2, 2
	byRank := make([][]*goccl.Comm, n)
	for range comms {
		for r, c := range commtest.OnMock(t, n, nil) {
			byRank[r] = append(byRank[r], c)
		}
	}
	for name, do := range map[string]func(uint64) error{
		"one capture":        func(uint64) error { return orderInOneCapture(byRank, (*floats).settle) },
		"replays and eager":  func(uint64) error { return orderOfReplaysAndEagerWork(byRank, (*floats).settle) },
		"calls of all kinds": func(seed uint64) error { return orderOnce(byRank, seed) },
	} {
		t.Run(name, func(t *testing.T) { inAnyOrder(t, mockcuda.Communicator, do) })
	}
}

// settle waits without sleeping: each query lets the mock driver make progress.
func (f *floats) settle(int) error {
	for _, s := range f.s {
		for {
			if done, err := s.Query(); err != nil {
				return err
			} else if done {
				break
			}
		}
	}
	return nil
}

// orderOnce is some rounds of a script.
func orderOnce(byRank [][]*goccl.Comm, seed uint64) error {
	return commtest.Each(len(byRank), func(r int) error {
		k, err := newOrderRank(byRank[r], seed)
		script := newOrderScript(seed, len(byRank), len(byRank[0]))
		for range 4 {
			steps, _ := script.round(60)
			if err == nil {
				err = k.run(steps, orderLimit)
			}
		}
		return errors.Join(err, k.close())
	})
}

// A communicator's plans are ordered like its operations: one after the other with the engine's operations, in a
// capture of two streams, and inside and outside of graphs.
func TestOnMockOrderWithPlans(t *testing.T) {
	const n, count = 2, 256
	comms := commtest.OnMock(t, n, nil)
	p, err := programs.Build("allreduce_twoshot_ll", programs.Options{Ranks: n})
	if err != nil {
		t.Fatal(err)
	}
	both := func(r int, f *floats, i int64) error { // a plan, then the engine
		at := f.mem.Ptr()
		return errors.Join(f.allReduce(0, f.s[i%2]),
			comms[r].AllGather(at, at.Add(8192), count, datatype.Float32, f.s[(i+1)%2]))
	}
	first := make([]*floats, n)
	if err := commtest.Each(n, func(r int) error {
		err := comms[r].RegisterPlan(context.Background(), p)
		if err == nil {
			first[r], err = newFloats(comms[r], 8)
		}
		if err == nil {
			err = both(r, first[r], 0) // after the one-time set-up, which all ranks do together
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	f, executed := first[0], false
	inAnyOrder(t, func(c mockcuda.Call) uint64 {
		executed = executed || mockcuda.Communicator(c) == 0 || len(c.Kernel) > 5 &&
			(c.Kernel[:5] == "quick" || c.Kernel[:5] == "execu")
		return 1 // only rank 0's operations run
	}, func(uint64) (err error) {
		f.x, err = commtest.Capture(f.s[0], cuda.CaptureRelaxed, func() error {
			errs := []error{streamAfter(f.s[1], f.s[0])}
			for i := range int64(3) {
				errs = append(errs, both(0, f, i))
			}
			return errors.Join(append(errs, streamAfter(f.s[0], f.s[1]))...)
		})
		for i := int64(0); i < 5 && err == nil; i++ {
			err = errors.Join(f.x.Launch(f.s[i%2]), both(0, f, i))
		}
		return errors.Join(err, f.settle(0), f.x.Close())
	})
	if !executed {
		t.Error("no plan ran")
	}
	for _, f := range first {
		if err := errors.Join(f.settle(0), f.s[0].Close(), f.s[1].Close(), f.mem.Close()); err != nil {
			t.Error(err)
		}
	}
}

// With SeparateGraphs a communicator adds only the operations' nodes to graphs.
func TestOnMockSeparateGraphs(t *testing.T) {
	nodes := func(env string, set func(int, *goccl.Config)) int {
		t.Setenv("NCCL_GRAPH_MIXING_SUPPORT", env)
		c := commtest.OnMock(t, 2, set)[0]
		s, p := commtest.MockStream(t, c), commtest.Scratch(t, c)
		x, n, err := commtest.CaptureNodes(s, cuda.CaptureRelaxed,
			func() error { return c.AllReduce(p, p, 8, datatype.Int32, datatype.Sum, s) })
		if err = errors.Join(err, x.Close()); err != nil {
			t.Fatal(err)
		}
		return n
	}
	separate := func(_ int, cfg *goccl.Config) { cfg.SeparateGraphs = true }
	for i, n := range []int{nodes("", nil) - orderNodes, nodes("1", nil) - orderNodes, nodes("0", nil),
		nodes("", separate)} {
		if n != 1 {
			t.Errorf("setting %d: a graph of one operation has %d nodes besides the nodes of the order", i, n)
		}
	}
}

func TestMock(t *testing.T) { commtest.RunOnMock(t) }
