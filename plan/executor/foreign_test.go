package executor_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/executor/planrun"
)

// foreign runs plans in the form of other writers: no schema_version, absent keys, the older name of a switch entry's
// buffer, and every op.
func foreign(t *testing.T, open func(int) (device.Device, error), ranks int) {
	var files []string
	for _, pattern := range []string{"testdata/*.json", "../testdata/foreign/*.json",
		"../dsl/testdata/*.json"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
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
				p, err := plan.Decode(data)
				if err == nil {
					xs[r], err = j.execs[r].Load(bounded(t), p)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			for i, m := range messages(xs[0], n, 2, 64, 4096, 100_002, 1<<20) {
				for _, inPlace := range []bool{false, true} {
					c := planrun.Case{Message: m, Type: datatype.Bfloat16, Op: planrun.Operator(p, datatype.Sum), InPlace: inPlace,
						Seed: uint64(i)}
					if xs[0].Takes(m, c.Type, c.Op) != nil {
						continue
					}
					if err := j.run(bounded(t), xs, c); err != nil {
						t.Fatalf("%v: %v", c, err)
					}
				}
			}
		})
	}
}

func TestHostForeignPlans(t *testing.T) { foreign(t, openHost, 8) }
