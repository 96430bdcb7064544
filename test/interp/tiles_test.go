package interp_test

import (
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/test/interp"
	"github.com/goccl/goccl/test/plans"
)

// tiles is a plan with hooks, which no program of the registry has.
func tiles(t testing.TB) *plan.Plan {
	t.Helper()
	p, err := plans.AllGatherTiles(3, 2)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTiles runs it in random schedules, of which the caller's part at each hook is one more thread block.
func TestTiles(t *testing.T) {
	p := tiles(t)
	for seed := range uint64(20) {
		if err := interp.CheckCollective(p, sizes(p, false), seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
