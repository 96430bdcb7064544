package gpu_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/test/commtest"
)

var fusedSteps = flag.Int("fused.steps", 1000, "captured steps of TestGPUFusedCaptured, for each algorithm")

const (
	fusedGraph = 25 // steps of a graph
	fusedBank  = 8  // inputs that steps choose from
)

// fusedRank is a rank of TestGPUFusedCaptured. Its memory has, each of the size of an input: the bank, the inputs and
// the norms of a graph's steps, the residual and its sum; then the weight.
type fusedRank struct {
	c    *goccl.Comm
	f    *goccl.Fusion
	s    *cuda.Stream
	mem  device.Allocation
	step goccl.FusedRequest
}

func (k *fusedRank) at(i int) device.Ptr { return k.mem.Ptr().Add(int64(i) * k.step.Bytes()) }

// in and out are the input and the norm of a graph's i-th step.
func (k *fusedRank) in(i int) device.Ptr  { return k.at(fusedBank + i) }
func (k *fusedRank) out(i int) device.Ptr { return k.at(fusedBank + fusedGraph + i) }

// run enqueues the i-th step.
func (k *fusedRank) run(i int, algorithm string) error {
	r := k.step
	r.Input, r.Norm, r.Algorithm = k.in(i), k.out(i), algorithm
	r.Residual, r.ResidualOut, r.Weight = k.at(fusedBank+2*fusedGraph), k.at(fusedBank+2*fusedGraph+1),
		k.at(fusedBank+2*fusedGraph+2)
	return errors.Join(k.s.Memset(r.Norm, 0xa5, r.Bytes()), k.f.AllReduce(r))
}

// norms waits and returns the norms of n steps.
func (k *fusedRank) norms(n int) ([]byte, error) {
	ctx, stop := context.WithTimeout(context.Background(), commtest.Soon)
	defer stop()
	b := make([]byte, int64(n)*k.step.Bytes())
	err := k.c.Synchronize(ctx, k.s)
	if err == nil {
		err = k.c.Device().CopyOut(b, k.out(0))
	}
	return b, err
}

func newFusedRank(c *goccl.Comm, tokens int64) (k *fusedRank, err error) {
	k = &fusedRank{c: c, step: goccl.FusedRequest{Tokens: tokens, Hidden: 2048, Type: datatype.Bfloat16, Epsilon: 1e-6}}
	if k.s, err = commtest.GPUStream(c); err != nil {
		return k, err
	}
	k.step.Stream = k.s
	parts := int64(fusedBank + 2*fusedGraph + 3)
	if k.mem, err = c.Device().Alloc(parts * k.step.Bytes()); err != nil {
		return k, err
	}
	values := make([]float32, parts*tokens*k.step.Hidden)
	r := rand.New(rand.NewPCG(uint64(c.Rank()), 3))
	for i := range values {
		values[i] = float32(r.NormFloat64())
	}
	data := make([]byte, 2*len(values))
	hostreduce.Encode(data, values, k.step.Type)
	if err = c.Device().CopyIn(k.mem.Ptr(), data); err == nil {
		k.f, err = c.NewFusion(context.Background(), goccl.FusionConfig{})
	}
	return k, err
}

// replays runs a graph of steps many times, each time with inputs in another order, and compares every norm with the
// norm that algorithm apart makes of the same input. A rank comes late now and then.
func (k *fusedRank) replays(algorithm string, n int) error {
	order := rand.New(rand.NewPCG(uint64(n), 5)) // the same on all ranks
	late := rand.New(rand.NewPCG(uint64(k.c.Rank()), 7))
	choose := func(entry func(i int) int) (err error) {
		for i := range fusedGraph {
			err = errors.Join(err, k.s.Copy(k.in(i), k.at(entry(i)), k.step.Bytes()))
		}
		return err
	}
	// The residual, which an operation keeps, is the rank's own: so are the norms.
	err := choose(func(i int) int { return i % fusedBank })
	for i := range fusedBank {
		err = errors.Join(err, k.run(i, "apart"))
	}
	want, err2 := k.norms(fusedBank)
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	graph, err := k.s.Capture(func() (err error) {
		for i := range fusedGraph {
			err = errors.Join(err, k.run(i, algorithm))
		}
		return err
	})
	if err != nil {
		return err
	}
	size := int(k.step.Bytes())
	for range n {
		entries := make([]int, fusedGraph)
		for i := range entries {
			entries[i] = order.IntN(fusedBank)
		}
		if late.IntN(40) == 0 {
			time.Sleep(time.Duration(late.IntN(60)) * time.Millisecond)
		}
		if err := errors.Join(choose(func(i int) int { return entries[i] }), graph.Launch(k.s)); err != nil {
			return err
		}
		got, err := k.norms(fusedGraph)
		if err != nil {
			return err
		}
		for i, entry := range entries {
			if !bytes.Equal(got[i*size:][:size], want[entry*size:][:size]) {
				return fmt.Errorf("rank %d, step %d: wrong norms of input %d", k.c.Rank(), i, entry)
			}
		}
	}
	return errors.Join(graph.Close(), k.f.Close(), k.s.Close(), k.mem.Close())
}

// Captured fused all-reduces of rows in one slot and in several have the bits of algorithm apart.
func TestGPUFusedCaptured(t *testing.T) {
	n, open := commtest.GPUs(t)
	for _, c := range []struct {
		algorithm string
		tokens    int64
		part      int // of the steps
	}{{"one_shot", 1, 1}, {"two_shot", 3, 1}, {"one_shot", 300, 20}, {"two_shot", 300, 20}} {
		t.Run(fmt.Sprint(c.algorithm, c.tokens), func(t *testing.T) {
			comms, ranks := commtest.New(t, n, open, nil), make([]*fusedRank, n)
			if err := commtest.Each(n, func(r int) (err error) {
				ranks[r], err = newFusedRank(comms[r], c.tokens)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			replays := max(2, *fusedSteps/fusedGraph/c.part)
			if err := commtest.Each(n, func(r int) error { return ranks[r].replays(c.algorithm, replays) }); err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
			fmt.Printf("fused: %s, %d rows, %d ranks: %d steps, 0 wrong\n", c.algorithm, c.tokens, n, replays*fusedGraph)
		})
	}
}
