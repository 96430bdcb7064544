package executor_test

import (
	"os"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/executor"
	"github.com/goccl/goccl/executor/planrun"
	"github.com/goccl/goccl/plan"
)

// foreign runs plans in the form that others write: no schema_version, absent keys, the older name of a switch entry's buffer.
func foreign(t *testing.T, open func(int) (device.Device, error), ranks int) {
	for _, file := range []string{"allgather_put.json", "allreduce_switch_old.json"} {
		t.Run(file, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + file)
			if err != nil {
				t.Fatal(err)
			}
			p, err := plan.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			n := len(p.GPUs)
			if n > ranks {
				t.Skipf("%d devices", ranks)
			}
			j := newJob(t, n, open)
			xs := make([]*executor.ExecutionPlan, n)
			if err := j.each(func(r int) (err error) {
				xs[r], err = j.execs[r].LoadJSON(bounded(t), data)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			for i, m := range messages(xs[0], n, 2, 64, 4096, 100_002, 1<<20) {
				for _, inPlace := range []bool{false, true} {
					c := planrun.Case{Message: m, Type: datatype.Bfloat16, InPlace: inPlace, Seed: uint64(i)}
					if err := j.run(bounded(t), xs, c); err != nil {
						t.Fatalf("%v: %v", c, err)
					}
				}
			}
		})
	}
}

func TestHostForeignPlans(t *testing.T) { foreign(t, openHost, 8) }
