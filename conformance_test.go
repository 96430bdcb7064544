package goccl_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/conformance"
)

// newComms makes n ranks in this process, rank r on open(r).
func newComms(t testing.TB, n int, open func(r int) (device.Device, error)) []*goccl.Comm {
	t.Helper()
	boots := bootstrap.NewLocalGroup(n)
	comms := make([]*goccl.Comm, n)
	errs := make(chan error, n)
	for r := range n {
		dev, err := open(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = dev.Close() })
		go func() {
			var err error
			comms[r], err = goccl.NewComm(context.Background(), goccl.Config{Bootstrap: boots[r], Device: dev, OpTimeout: 20 * time.Second})
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, c := range comms {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		for _, b := range boots {
			_ = b.Close()
		}
	})
	return comms
}

func openHost(r int) (device.Device, error) { return host.Open(r) }

// cudaRanks returns how many ranks to run and their devices: rank r on GPU r or, with fewer than two GPUs, several
// ranks on one.
func cudaRanks(t testing.TB) (n int, open func(r int) (device.Device, error)) {
	t.Helper()
	if err := cuda.Available(); err != nil {
		t.Skip("no GPU: ", err)
	}
	gpus, err := cuda.Count()
	if err != nil {
		t.Fatal(err)
	}
	return max(2, gpus), func(r int) (device.Device, error) { return cuda.Open(r % gpus) }
}

// matrix runs every collective, type and operator at one odd size, and every collective over sizes and shifts in one
// type.
func matrix(t *testing.T, comms []*goccl.Comm, sizes []int64) {
	n := len(comms)
	run := func(c conformance.Case) {
		c.Seed = rand.Uint64()
		if err := conformance.Run(comms, c); err != nil {
			t.Fatalf("%v seed %d: %v", c, c.Seed, err)
		}
	}
	for _, coll := range conformance.Collectives {
		for ty := range datatype.NumTypes {
			ops := []datatype.Op{datatype.Sum}
			if conformance.Reduces(coll) {
				ops = []datatype.Op{datatype.Sum, datatype.Prod, datatype.Max, datatype.Min, datatype.Avg, datatype.PreMulSum}
				if testing.Short() {
					i := rand.IntN(len(ops) - 1)
					ops = ops[i : i+2]
				}
			}
			for _, op := range ops {
				for _, inPlace := range []bool{false, true} {
					run(conformance.Case{Collective: coll, Type: ty, Op: op, Count: 1013, Root: rand.IntN(n), InPlace: inPlace})
				}
			}
		}
		for _, size := range sizes {
			for _, inPlace := range []bool{false, true} {
				for _, ty := range []datatype.Type{datatype.Float32, datatype.Bfloat16} {
					run(conformance.Case{Collective: coll, Type: ty, Count: size, Root: rand.IntN(n), InPlace: inPlace, Repeat: 3})
				}
			}
			run(conformance.Case{Collective: coll, Type: datatype.Float16, Count: size, Root: rand.IntN(n), Shift: 1})
		}
	}
}

func TestHostOneProcess(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		t.Run(map[int]string{1: "1 rank", 2: "2 ranks", 3: "3 ranks", 8: "8 ranks"}[n], func(t *testing.T) {
			sizes := []int64{0, 1, 2, 127, 4096, 65537}
			if n == 3 && !testing.Short() {
				sizes = append(sizes, 1<<20+3)
			}
			matrix(t, newComms(t, n, openHost), sizes)
		})
	}
}

func TestGPUOneProcess(t *testing.T) {
	n, open := cudaRanks(t)
	matrix(t, newComms(t, n, open), []int64{0, 1, 2, 127, 4096, 65537, 1<<20 + 3, 8 << 20})
}
