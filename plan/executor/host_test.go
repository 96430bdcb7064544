package executor_test

import (
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor/planrun"
)

// TestHostPrograms runs all shipped programs: sizes with tails, in place and out of place, each several times on the
// same data.
func TestHostPrograms(t *testing.T) {
	ranks := []int{3}
	if setting.Lenient().Full != "" {
		ranks = []int{2, 3, 8}
	}
	for _, n := range ranks {
		shipped(t, n, func(name string, p *plan.Plan) {
			t.Run(name, func(t *testing.T) {
				j := newJob(t, n, openHost)
				xs := j.load(t, p)
				ctx := bounded(t)
				// 8 ranks show that programs scale, fewer ranks that every size is correct.
				sizes := []uint64{4 * uint64(n), 4096*uint64(n) + 4*uint64(n), 400_000}
				if n == 8 {
					sizes = sizes[1:2]
				}
				for i, m := range messages(xs[0], n, 4, sizes...) {
					for _, inPlace := range []bool{false, true} {
						c := planrun.Case{Message: m, Type: datatype.Float32, InPlace: inPlace, Seed: uint64(i)}
						if !inPlace {
							c.Times = 3
						}
						if err := j.run(ctx, xs, c); err != nil {
							t.Fatalf("%v: %v", c, err)
						}
					}
				}
			})
		})
	}
}
