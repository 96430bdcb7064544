package commtest

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/test/conformance"
)

// Matrix is a task: the trimmed conformance matrix on a communicator of all ranks. All ranks' results of an all-reduce
// must be bitwise identical.
func Matrix(k *Process) error {
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
		if cs.Collective != collective.AllReduce {
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
