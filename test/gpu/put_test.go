package gpu_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
)

var (
	putSteps = flag.Int("put.steps", 400, "captured steps of TestGPUPutsCaptured")
	putMost  = flag.Int64("put.most", 5<<20, "the largest put of TestGPUPutsCaptured, a multiple of 8")
)

// putRank is a rank of TestGPUPutsCaptured, which puts to the next rank and waits for the one before. Its memory has n
// slots that others write to, and the sources and results of a graph's steps.
type putRank struct {
	c   *goccl.Comm
	s   *cuda.Stream
	w   *goccl.FlatWindow
	mem device.Allocation
}

func (k *putRank) at(i int) device.Ptr { return k.mem.Ptr().Add(int64(i) * *putMost) }

// run enqueues the i-th step. The slot is free: what came in step i-n was copied before this rank's neighbours, one
// after the other, put their data of the steps since then.
func (k *putRank) run(i, steps int, size int64) error {
	n, r := k.c.WorldSize(), k.c.Rank()
	return errors.Join(
		k.c.PutSignal(k.w, int64(i%n)**putMost, k.at(n+i), size, (r+1)%n, goccl.SignalID{}, k.s),
		k.c.WaitSignal([]goccl.SignalWait{{Peer: (r + n - 1) % n, Count: 1}}, k.s),
		k.s.Memset(k.at(n+steps+i), 0xa5, size), k.s.Copy(k.at(n+steps+i), k.at(i%n), size))
}

// putData fills b, up to the next multiple of 8, with the data of a rank's step.
func putData(b []byte, step uint64, rank int) {
	r := rand.NewPCG(step, uint64(rank))
	for i := 0; i < len(b); i += 8 {
		binary.NativeEndian.PutUint64(b[i:i+8], r.Uint64())
	}
}

// steps runs graphs of puts of random sizes and compares what came.
func (k *putRank) steps(graph int) (err error) {
	n, r := k.c.WorldSize(), k.c.Rank()
	got, data := make([]byte, *putMost), make([]byte, *putMost)
	sizes := rand.New(rand.NewPCG(3, 5)) // the same on all ranks
	for done := 0; done < *putSteps; {
		lengths := make([]int64, graph)
		for i := range lengths {
			if lengths[i] = 1 + sizes.Int64N(min(*putMost, 70<<10)); sizes.IntN(10) == 0 {
				lengths[i] = 1 + sizes.Int64N(*putMost)
			}
		}
		x, err := k.s.Capture(func() (err error) {
			for i, size := range lengths {
				err = errors.Join(err, k.run(i, graph, size))
			}
			return err
		})
		if err != nil {
			return err
		}
		for range 20 {
			for i, size := range lengths {
				putData(data[:size], uint64(done+i), r)
				if err := k.c.Device().CopyIn(k.at(n+i), data[:size]); err != nil {
					return err
				}
			}
			if err := errors.Join(x.Launch(k.s), k.c.Synchronize(context.Background(), k.s)); err != nil {
				return err
			}
			for i, size := range lengths {
				putData(data[:size], uint64(done+i), (r+n-1)%n)
				if err := k.c.Device().CopyOut(got[:size], k.at(n+graph+i)); err != nil {
					return err
				}
				if !bytes.Equal(got[:size], data[:size]) {
					return fmt.Errorf("rank %d, step %d, %d bytes: wrong", r, done+i, size)
				}
			}
			if done += graph; done >= *putSteps {
				break
			}
		}
		if err := x.Close(); err != nil {
			return err
		}
	}
	return errors.Join(k.c.Finalize(context.Background()), k.s.Close(), k.mem.Close())
}

// Captured puts of random sizes, of which the larger ones go by a copy engine as well where a rank has a GPU alone,
// arrive before their signals.
func TestGPUPutsCaptured(t *testing.T) {
	n, open := commtest.GPUs(t)
	graph := n * max(1, 10/n)
	comms, ranks := commtest.New(t, n, open, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = commtest.Soon }),
		make([]*putRank, n)
	if err := commtest.Each(n, func(r int) (err error) {
		k := &putRank{c: comms[r]}
		ranks[r] = k
		if k.s, err = commtest.GPUStream(k.c); err != nil {
			return err
		}
		if k.mem, err = k.c.Device().Alloc(int64(n+2*graph) * *putMost); err != nil {
			return err
		}
		if k.w, err = k.c.RegisterFlat(k.mem.Ptr(), int64(n)**putMost); err == nil {
			err = k.w.Await()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := commtest.Each(n, func(r int) error { return ranks[r].steps(graph) }); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("puts: %d ranks, %d captured steps, 0 wrong\n", n, *putSteps)
}
