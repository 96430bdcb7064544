package verify_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/test/mutant"
)

// Launches that follow equal states are run once. Mutants of plans with pipelines, of one half of scratch or two, are
// judged as when all combinations are run.
func TestEqualStatesGoOnAlike(t *testing.T) {
	tried := 10
	if os.Getenv("GOCCL_FULL") != "" {
		tried = 2000
	}
	var plans []*plan.Plan
	for _, ranks := range []int{2, 4} {
		p, err := programs.Build("allreduce_hierarchical_pipelined",
			programs.Options{Ranks: 4, Hosts: ranks / 2, Instances: 1})
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, p)
	}
	for _, name := range []string{"testdata/pipeline.txtar", "../dsl/testdata/pipeline.json"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(name) == ".txtar" {
			data = txtar.Parse(data).Files[0].Data
		}
		p, err := plan.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		twice := *p
		twice.DoubleScratch = true
		plans = append(plans, p, &twice)
	}
	accepted, refused := 0, 0
	rng := rand.New(rand.NewPCG(1, 2))
	for _, p := range plans {
		text := p.Encode()
		for i := range tried {
			q, err := plan.Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			what := "unchanged"
			if i > 0 {
				what = mutant.Mutate(q, rng)
			}
			_, err = verify.Check(q, verify.Options{MaxSteps: verify.FewSteps})
			every := verify.CheckEvery(q)
			if errors.Is(err, verify.ErrTooLarge) || errors.Is(every, verify.ErrTooLarge) {
				continue
			}
			if (err == nil) != (every == nil) {
				t.Errorf("%s, %s: %v, with all combinations %v", p.Name, what, err, every)
			}
			if err == nil {
				accepted++
			} else {
				refused++
			}
		}
	}
	if t.Logf("%d accepted, %d refused", accepted, refused); accepted == 0 || refused == 0 {
		t.Error("too few of one kind")
	}
}
