package executor_test

import (
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/dsl/programs"
	"github.com/goccl/goccl/executor"
	"github.com/goccl/goccl/executor/planrun"
)

// TestHostSeveralPlans runs several plans at once, each from a goroutine and a stream of its own, many times.
func TestHostSeveralPlans(t *testing.T) {
	const n = 3
	j := newJob(t, n, openHost)
	var plans [][]*executor.ExecutionPlan
	for _, name := range []string{"allreduce_twoshot_ll", "allreduce_ring", "allgather_direct"} {
		p, err := programs.Build(name, programs.Options{Ranks: n})
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, j.load(t, p))
	}
	ctx := bounded(t)
	errs := make(chan error, len(plans))
	for k, xs := range plans {
		go func() {
			for i := range 10 {
				if err := j.run(ctx, xs, planrun.Case{Message: uint64(n) * 4 * uint64(100+i*k), Type: datatype.Int32, Seed: uint64(i), Times: 5}); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range plans {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestHostEpochsWrap runs packets over the end of their 32-bit epochs.
func TestHostEpochsWrap(t *testing.T) {
	const n = 2
	for _, name := range []string{"allreduce_twoshot_ll", "broadcast_ll"} {
		j := newJob(t, n, openHost)
		p, err := programs.Build(name, programs.Options{Ranks: n})
		if err != nil {
			t.Fatal(err)
		}
		xs := j.load(t, p)
		for _, x := range xs {
			executor.StartAt(x, 1<<32-6)
		}
		for i := range 4 {
			if err := j.run(bounded(t), xs, planrun.Case{Message: 1000, Type: datatype.Int8, Seed: uint64(i), Times: 3}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
