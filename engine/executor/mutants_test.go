package executor_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine/executor"
	"github.com/goccl/goccl/engine/executor/planrun"
	"github.com/goccl/goccl/internal/test/commtest"
	"github.com/goccl/goccl/plan"
)

// TestHostMutants runs on the host device what the verifier accepts of small changes to the programs: on new data each
// time, with junk in scratch, for messages of changing sizes. -mutants 10000 is the long form.
func TestHostMutants(t *testing.T) {
	runs := 0
	executor.EachMutant(t, executor.MutantShapes(), func(name string, q *plan.Plan, messages []uint64) {
		t.Run(name, func(t *testing.T) {
			j := newPatientJob(t, len(q.GPUs), openHost, 0) // judged by steps: a busy machine is no reason to fail
			xs := j.load(t, q, executor.Trusted())
			err := j.watched(xs, patience, func(ctx context.Context, r int) error {
				for i, m := range messages {
					if _, err := planrun.Rank(ctx, xs[r], r, j.devs[r], mutantCase(q, m, i)); err != nil {
						return fmt.Errorf("%d bytes: %w", m, err)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatalf("%v\n%s", err, q.Encode())
			}
			runs += len(messages)
		})
	})
	t.Logf("%d runs on the host device: 0 wrong, 0 hung", runs)
}

// mutantCase runs the i-th message of a mutant on new data.
func mutantCase(q *plan.Plan, message uint64, i int) planrun.Case {
	return planrun.Case{Message: message, Type: datatype.Float32, Op: planrun.Operator(q, datatype.Sum), Seed: uint64(i),
		Fresh: 1, InPlace: q.InPlace}
}

// TestGPUMutants is TestHostMutants on GPUs, for plans of at most as many ranks: kernels of two ranks of this process
// on one GPU may get into one of its queues, where each would wait for the other.
func TestGPUMutants(t *testing.T) {
	n, open := commtest.GPUs(t)
	gpus, err := cuda.Count()
	if err != nil {
		t.Fatal(err)
	}
	for r := range n { // opened once: to open a GPU again is then cheap
		d, err := open(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
	}
	runs := 0
	executor.EachMutant(t, executor.MutantShapes(), func(name string, q *plan.Plan, messages []uint64) {
		if len(q.GPUs) > gpus {
			return
		}
		t.Run(name, func(t *testing.T) {
			j := newJob(t, len(q.GPUs), open)
			xs := j.load(t, q, executor.Trusted())
			for i, m := range messages {
				if err := j.run(bounded(t), xs, mutantCase(q, m, i)); err != nil {
					t.Fatalf("%d bytes: %v\n%s", m, err, q.Encode())
				}
				runs++
			}
		})
	})
	t.Logf("%d runs on GPUs: 0 wrong, 0 hung", runs)
}
