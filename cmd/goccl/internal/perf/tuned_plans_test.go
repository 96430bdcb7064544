package perf

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/fabric"
	"github.com/goccl/goccl/plan/simulate"
	"github.com/goccl/goccl/plan/synth"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

// A plan that was searched for a topology and won on some sizes is what a communicator with GOCCL_PLAN_DIR runs on
// these, with right results, and on no others.
func TestTunedPlansAreUsed(t *testing.T) {
	g, err := fabric.Example("broken-nvlink")
	if err != nil {
		t.Fatal(err)
	}
	m, err := simulate.NamedMachine("h200")
	if err != nil {
		t.Fatal(err)
	}
	found, err := synth.Run(synth.Options{Graph: g, Collective: plan.AllGather, Size: 1 << 14, Machine: m})
	if err != nil {
		t.Fatal(err)
	}
	p, err := found.Candidates[0].Prove()
	if err != nil {
		t.Fatal(err)
	}
	n, dir := g.Ranks(), t.TempDir()
	o := TuneOptions{Plans: dir}
	kind := Kind{Collective: collective.AllGather}
	if err := o.writePlans(kind, n, []*planLibrary{{ours: ours{kind: kind}, plan: p}},
		[]planRange{{0, 1 << 12, 1 << 15, 2}}, func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	written, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(written) != 1 {
		t.Fatal(written, err)
	}
	t.Setenv("GOCCL_PLAN_DIR", dir)
	comms := commtest.New(t, n, commtest.Host, nil)
	list := comms[0].Algorithms()
	if len(list) != 1 {
		t.Fatalf("%d plans are loaded from %v", len(list), written)
	}
	chosen := collective.NewCollection(0, n, n, nil)
	if err := chosen.Register(list[0]); err != nil {
		t.Fatal(err)
	}
	for message, used := range map[int64]bool{1 << 11: false, 1 << 12: true, 1 << 14: true, 1 << 15: true,
		1 << 16: false} {
		count := message / int64(n) / datatype.Float32.Size()
		r := collective.Request{Collective: collective.AllGather, Count: count, Type: datatype.Float32}
		if a := chosen.Select(&r); (a != nil) != used {
			t.Errorf("%d bytes: the plan is chosen: %v", message, a != nil)
		}
		if err := conformance.Run(comms, conformance.Case{Collective: collective.AllGather, Type: datatype.Float32,
			Count: count}); err != nil {
			t.Errorf("%d bytes: %v", message, err)
		}
	}
	if err := os.Remove(written[0]); err != nil {
		t.Fatal(err)
	}
	if left := commtest.New(t, n, commtest.Host, nil)[0].Algorithms(); len(left) != 0 {
		t.Errorf("%d plans without the file", len(left))
	}
}
