package gpu_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
	"github.com/goccl/goccl/test/testutil"
)

// hostsOfGPUs are layouts of ranks of this process. More than two ranks do not share a GPU: with three streams each, a
// kernel may be in the hardware queue of the stream of another rank, behind a kernel that waits for it.
var hostsOfGPUs = [][]int{{0, 1}, {0, 0, 1, 1}, {0, 0, 0, 1}}

func onGPUs(t *testing.T, hosts []int) []*goccl.Comm {
	t.Helper()
	gpus, open := commtest.GPUs(t)
	if real, err := cuda.Count(); err != nil || gpus < len(hosts) || 2*real < len(hosts) {
		t.Skipf("%d GPUs, %d ranks: %v", real, len(hosts), err)
	}
	return commtest.NewOn(t, hosts, open, nil)
}

// Every collective of GPUs of several hosts, with every type and operator, and over sizes.
func TestGPUsAcrossHosts(t *testing.T) {
	for i, hosts := range hostsOfGPUs {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			comms := onGPUs(t, hosts)
			run := func(c conformance.Case) {
				c.Seed = rand.Uint64()
				if err := conformance.Run(comms, c); err != nil {
					t.Fatalf("%v seed %d: %v", c, c.Seed, err)
				}
			}
			n := len(hosts)
			for _, c := range conformance.Trimmed(n, uint64(i), []int64{0, 1, 127, 4096, 65537, 1<<20 + 3}) {
				run(c)
			}
			for ty := range datatype.NumTypes {
				for op := range datatype.NumOps {
					for _, coll := range []collective.Collective{collective.AllReduce, collective.ReduceScatter, collective.Reduce} {
						run(conformance.Case{Collective: coll, Type: ty, Op: op, Count: 5003, Root: rand.IntN(n), InPlace: op%2 == 0})
					}
				}
			}
		})
	}
}

// Captured all-reduces across hosts, small and in several chunks, run at each launch of their graph, between eager
// ones.
func TestGPUGraphAcrossHosts(t *testing.T) {
	const replays = 12
	comms := onGPUs(t, []int{0, 1})
	n := len(comms)
	if err := commtest.Each(n, func(r int) error {
		c := comms[r]
		s, err := commtest.GPUStream(c)
		if err != nil {
			return err
		}
		for _, count := range []int64{1000, 3 << 20} {
			mem, err := c.Device().Alloc(8 * count)
			if err != nil {
				return err
			}
			in, out := mem.Ptr(), mem.Ptr().Add(4*count)
			enqueue := func() error {
				return c.AllReduce(in, out, count, datatype.Float32, datatype.Sum, s)
			}
			x, err := commtest.Capture(s, cuda.CaptureRelaxed, func() error {
				if err := enqueue(); err != nil {
					return err
				}
				return enqueue()
			})
			if err != nil {
				return err
			}
			b, want := make([]byte, 4*count), make([]byte, 4*count)
			for seed := range uint64(replays) {
				hostreduce.Fill(b, datatype.Float32, seed, r)
				if err := c.Device().CopyIn(in, b); err != nil {
					return err
				}
				launch := func() error { return x.Launch(s) }
				if seed%3 == 2 {
					launch = enqueue
				}
				if err := launch(); err != nil {
					return err
				}
				if err := s.Synchronize(context.Background()); err != nil {
					return err
				}
				if err := testutil.Expected(want, datatype.Float32, datatype.Sum, seed, n); err != nil {
					return err
				}
				if err := c.Device().CopyOut(b, out); err != nil {
					return err
				}
				if wrong, i := hostreduce.Check(b, want, datatype.Float32, datatype.Sum, n); wrong != 0 {
					return fmt.Errorf("rank %d, launch %d of %d: %d elements are wrong, from %d on", r, seed, count, wrong, i)
				}
			}
			if err := x.Close(); err != nil {
				return err
			}
			if err := mem.Close(); err != nil {
				return err
			}
		}
		return s.Close()
	}); err != nil {
		t.Fatal(err)
	}
}
