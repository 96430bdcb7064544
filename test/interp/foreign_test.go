package interp_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/test/interp"
)

// foreign calls f for every plan of plan/testdata/foreign. These have the form of other writers: without
// schema_version, with both spellings of a switch channel's buffer, and with the fields that MSCCL++'s language writes
// and its executor ignores.
func foreign(t testing.TB, f func(name string, p *plan.Plan)) {
	files, err := filepath.Glob("../../plan/testdata/foreign/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Decode(data)
		if err != nil {
			t.Fatal(file, err)
		}
		f("foreign "+filepath.Base(file), p)
	}
}

// Plans made by others can be loaded, are encoded again the same way, are proven, and compute the expected result in
// every order and type.
func TestForeignPlans(t *testing.T) {
	foreign(t, func(name string, p *plan.Plan) {
		if p.SchemaVersion != 1 {
			t.Errorf("%s: schema version %d", name, p.SchemaVersion)
		}
		once := p.Encode()
		if q, err := plan.Decode(once); err != nil || !bytes.Equal(q.Encode(), once) {
			t.Errorf("%s: writing and reading again: %v", name, err)
		}
		r, err := verify.Check(p, verify.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		for threads := 1; threads <= 4; threads++ {
			if _, err := interp.Explore(p, interp.ExploreOptions{Sizes: small(p, r.EvenOnly), Threads: threads}); err != nil {
				t.Errorf("%s, %d threads: %v", name, threads, err)
			}
		}
		for dt := range datatype.NumTypes {
			for _, op := range []datatype.Op{datatype.Sum, datatype.Min, datatype.Max, datatype.Prod} {
				if err := interp.CheckReduction(p, []uint64{240, 96, 240}, dt, op, uint64(op)); err != nil {
					t.Errorf("%s, %v %v: %v", name, op, dt, err)
				}
			}
		}
	})
}

// Every op of the format is in a plan that this package proves and runs.
func TestEveryOpIsRun(t *testing.T) {
	var schema struct {
		Defs struct {
			Op struct {
				Properties struct{ Name struct{ Enum []plan.OpName } }
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(plan.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	missing := schema.Defs.Op.Properties.Name.Enum
	if len(missing) < 25 {
		t.Fatalf("%d ops in the schema", len(missing))
	}
	var strike func(ops []plan.Op)
	strike = func(ops []plan.Op) {
		for i := range ops {
			missing = slices.DeleteFunc(missing, func(n plan.OpName) bool { return n == ops[i].Name })
			strike(ops[i].Ops)
		}
	}
	note := func(_ string, p *plan.Plan) {
		for r := range p.GPUs {
			for b := range p.GPUs[r].ThreadBlocks {
				strike(p.GPUs[r].ThreadBlocks[b].Ops)
			}
		}
	}
	shipped(t, []programs.Options{{Ranks: 4}, {Ranks: 4, Hosts: 2}}, note)
	scripts(t, note)
	foreign(t, note)
	note("tiles", tiles(t))
	if len(missing) > 0 {
		t.Errorf("no plan here has %v", missing)
	}
}
