package executor_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/engine/executor"
	"github.com/goccl/goccl/engine/executor/planrun"
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
					c := planrun.Case{Message: m, Type: datatype.Float32, Op: planrun.Operator(q, datatype.Sum), Seed: uint64(i),
						Fresh: 1, InPlace: q.InPlace}
					if _, err := planrun.Rank(ctx, xs[r], r, j.devs[r], c); err != nil {
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
