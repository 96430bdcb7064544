package executor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/test/plans"
)

// eachFile calls f for the plans in files, which have the ops that shipped programs lack.
func eachFile(t *testing.T, f func(name string, p *plan.Plan)) {
	var files []string
	for _, pattern := range []string{"testdata/*.json", "../testdata/foreign/*.json",
		"../dsl/testdata/*.json"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d plans, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Decode(data)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		f(file, p)
	}
}

// kernelFiles runs the plans in files with the kernel's source, with every operator.
func kernelFiles(t *testing.T, program string) {
	eachFile(t, func(name string, p *plan.Plan) {
		n := uint64(len(p.GPUs))
		for i, m := range []uint64{48, 160, 1920} {
			op := []datatype.Op{datatype.Sum, datatype.Max, datatype.Prod}[i]
			if fixed, mixed := p.Operator(); mixed || fixed != plan.CallerOp {
				op = fixed.Or(datatype.Sum)
			}
			c := emulation{plan: p, message: m * n, t: datatype.Float32, op: op, threads: 3, launches: 3}
			if _, err := p.NewLayout(c.message); err != nil {
				continue
			}
			if err := c.run(t, program); err != nil {
				t.Errorf("%s, %d bytes: %v", name, c.message, err)
			}
		}
	})
}

// TestEveryOpIsTested checks that the plans of these tests contain every op of the format.
func TestEveryOpIsTested(t *testing.T) {
	missing := map[plan.OpName]bool{}
	for _, k := range plan.OpKinds() {
		missing[k.Name] = true
	}
	note := func(_ string, p *plan.Plan) {
		for r := range p.GPUs {
			for _, op := range p.GPUs[r].Ops() {
				delete(missing, op.Name)
			}
		}
	}
	eachFile(t, note)
	for _, spec := range programs.All() {
		if o := (programs.Options{Ranks: 3}); spec.Supports(o) == nil {
			p, err := spec.Build(o)
			if err != nil {
				t.Fatal(err)
			}
			note(spec.Name, p)
		}
	}
	tiles, err := plans.AllGatherTiles(3, 2) // TestHooks
	if err != nil {
		t.Fatal(err)
	}
	note("tiles", tiles)
	if len(missing) > 0 {
		t.Errorf("no plan of these tests has %v", missing)
	}
}
