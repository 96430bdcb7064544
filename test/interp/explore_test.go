package interp_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/test/interp"
)

// For every script of the verifier that decodes: a plan that the verifier accepts fails in no order, and a plan that it
// rejects fails in some order.
func TestExploreAgreesWithTheVerifier(t *testing.T) {
	files, err := filepath.Glob("../../plan/verify/testdata/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Decode(txtar.Parse(data).Files[0].Data)
		if err != nil {
			continue
		}
		r, err := verify.Check(p, verify.Options{})
		right, even := err == nil, r != nil && r.EvenOnly
		var fault error
		runs := 0
		for _, threads := range []int{1, 2, 3} {
			sizes := small(p, even)
			e, err := interp.Explore(p, interp.ExploreOptions{Sizes: sizes, Threads: threads, Runs: 1024})
			// two threads that store one packet double the orders in each launch
			for errors.Is(err, interp.ErrUnexplored) && len(sizes) > 1 {
				sizes = sizes[1:]
				e, err = interp.Explore(p, interp.ExploreOptions{Sizes: sizes, Threads: threads})
			}
			if e != nil {
				runs += e.Runs
			}
			if errors.Is(err, interp.ErrUnexplored) {
				t.Errorf("%s: %v", name, err)
			}
			if fault == nil {
				fault = err
			}
		}
		t.Logf("%s: right %v, %d orders, %v", name, right, runs, fault)
		switch {
		case right && fault != nil:
			t.Errorf("%s is accepted, and: %v", name, fault)
		case !right && fault == nil && name != "unverified":
			t.Errorf("%s is refused, and no order of steps shows a fault", name)
		}
	}
}

// small gives three launches of few units: chunks of one unit and of two, so that every thread has work and sizes
// change.
func small(p *plan.Plan, evenOnly bool) []uint64 {
	unit := uint64(0)
	for _, g := range p.GPUs {
		unit = max(unit, uint64(max(g.InputChunks, g.OutputChunks))*uint64(p.Alignment))
	}
	var out []uint64
	for _, size := range []uint64{2 * unit, unit, 2 * unit} {
		if l, err := p.NewLayout(size); err == nil && (!evenOnly || l.Even()) {
			out = append(out, size)
		}
	}
	if len(out) == 0 {
		out = []uint64{p.MinSize}
	}
	return out
}

// A correct plan has one order up to equivalence, unless blocks compete for a counter.
func TestExploreShipped(t *testing.T) {
	shapes := []programs.Options{{Ranks: 2}, {Ranks: 3, Instances: 1}, {Ranks: 4, Hosts: 2, Instances: 1}}
	shipped(t, shapes, func(name string, p *plan.Plan) {
		e, err := interp.Explore(p, interp.ExploreOptions{Sizes: small(p, false)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		t.Logf("%s: %d orders of %d steps", name, e.Runs, e.Steps)
	})
}
