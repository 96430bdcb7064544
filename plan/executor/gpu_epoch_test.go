package executor_test

import (
	"math"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/test/commtest"
)

// The launch numbers of every shipped program pass 2³², eagerly and, where the sizes allow, after larger and smaller
// launches.
func TestGPUEpochsWrap(t *testing.T) {
	const before, after = 5, 10
	n, open := commtest.GPUs(t)
	shipped(t, n, func(name string, p *plan.Plan) {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, n, open)
			xs := j.load(t, p)
			for r, x := range xs {
				if err := x.Age(j.devs[r], math.MaxUint32-before); err != nil {
					t.Fatal(err)
				}
			}
			sizes := messages(xs[0], n, 4, 100*uint64(n), 4096*uint64(n)+4*uint64(n), 300_000)
			if len(sizes) == 0 {
				t.Fatal("the plan takes none of the sizes")
			}
			ctx := bounded(t)
			for i := range before + after {
				c := planrun.Case{Message: sizes[i%len(sizes)], Type: datatype.Float32, Seed: uint64(i)}
				if err := j.run(ctx, xs, c); err != nil {
					t.Fatalf("launch %d: %v: %v", i, c, err)
				}
			}
		})
	})
}
