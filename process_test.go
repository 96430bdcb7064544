package goccl_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/internal/conformance"
	"github.com/goccl/goccl/internal/test/commtest"
)

func TestMain(m *testing.M) {
	commtest.Main(m, map[string]func(*commtest.Process) error{
		"matrix": processMatrix, "descriptors": descriptors, "children": children, "leave": leave,
	})
}

// processMatrix runs the trimmed conformance matrix; all ranks' results of an all-reduce must be bitwise identical.
func processMatrix(k *commtest.Process) error {
	c, err := k.Comm(k.Boot)
	if err != nil {
		return err
	}
	sizes := []int64{0, 1, 1023, 70001}
	if k.CUDA {
		sizes = append(sizes, 1<<20+3)
	}
	for _, cs := range conformance.Trimmed(k.Size, k.Seed, sizes) {
		out, err := conformance.RunRank(c, cs, cs.Inputs(k.Size))
		if err != nil {
			return err
		}
		if cs.Collective != algorithm.AllReduce {
			continue
		}
		sum := sha256.Sum256(out)
		all, err := k.Boot.AllGather(context.Background(), sum[:])
		if err != nil {
			return err
		}
		for r, s := range all {
			if string(s) != string(sum[:]) {
				return fmt.Errorf("%v: ranks %d and %d have different bits", cs, k.Rank, r)
			}
		}
	}
	if err := c.Finalize(context.Background()); err != nil {
		return err
	}
	return c.Close()
}

func TestProcesses(t *testing.T) {
	commtest.OnDevices(t, func(t *testing.T, tk commtest.Task) {
		tk.Do = "matrix"
		sizes := []int{2, tk.Size}
		if !testing.Short() && !tk.CUDA {
			sizes = []int{2, 3, 8}
		}
		for _, n := range sizes {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				tk := tk
				tk.Size = n
				commtest.Start(t, tk).Await("done", commtest.Everyone(n), time.Minute)
			})
		}
	})
}
