package executor_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/test/commtest"
)

// TestHostMutants runs on the host device what the verifier accepts of small changes to the programs: on new data each
// time, with junk in scratch, for messages of changing sizes. -mutants 10000 is the long form.
func TestHostMutants(t *testing.T) {
	runs := 0
	executor.EachMutant(t, func(name string, q *plan.Plan, messages []uint64) {
		t.Run(name, func(t *testing.T) {
			j := newPatientJob(t, len(q.GPUs), openHost, 0) // judged by steps: a busy machine is no reason to fail
			xs := j.load(t, q)
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

// TestGPUMutants is TestHostMutants on GPUs, for plans with at most one rank per GPU: kernels of two ranks of this
// process on one GPU may get into one of its queues, where each would wait for the other.
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
	over, runs := executor.MutantsOver(), map[int]int{}
	type mutant struct {
		name     string
		q        *plan.Plan
		messages []uint64
	}
	waiting := map[int][]mutant{} // by ranks; to load the kernels for each plan would take longer than the plan
	run := func(n int) {
		t.Run(fmt.Sprint(n, " ranks"), func(t *testing.T) {
			j := newJob(t, n, open)
			for _, m := range waiting[n] {
				if over() {
					return
				}
				xs := j.load(t, m.q)
				for i, size := range m.messages {
					if err := j.run(bounded(t), xs, mutantCase(m.q, size, i)); err != nil {
						t.Fatalf("%s, %d bytes: %v\n%s", m.name, size, err, m.q.Encode())
					}
					runs[n]++
				}
			}
		})
		waiting[n] = nil
	}
	executor.EachMutant(t, func(name string, q *plan.Plan, messages []uint64) {
		n := len(q.GPUs)
		if n > gpus || t.Failed() {
			return
		}
		if waiting[n] = append(waiting[n], mutant{name, q, messages}); len(waiting[n]) == 64 {
			run(n)
		}
	})
	for n := range waiting {
		run(n)
	}
	if t.Failed() {
		return
	}
	for n, k := range runs {
		t.Logf("%d runs of plans of %d ranks on GPUs: 0 wrong, 0 hung", k, n)
	}
}
