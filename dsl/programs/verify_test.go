package programs

import (
	"testing"

	"github.com/goccl/goccl/plan"
)

func verify(t *testing.T, p *Program, o Options) *plan.Plan {
	t.Helper()
	pl, err := p.Build(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Verify(pl, plan.VerifyOptions{}); err != nil {
		t.Fatal(err)
	}
	return pl
}

func TestProgramsVerify(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *Program, o Options) { verify(t, p, o) })
}

func TestProgramsVerifyAt64Ranks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	for _, p := range All() {
		for _, o := range []Options{{Ranks: 64, Instances: 1}, {Ranks: 64, Hosts: 8, Instances: 1}} {
			if p.Supports(o) == nil {
				t.Run(p.Name, func(t *testing.T) { verify(t, p, o) })
			}
		}
	}
}

func TestRootedProgramsAtEveryRoot(t *testing.T) {
	for _, p := range All() {
		if p.Collective != plan.Broadcast && p.Collective != plan.Reduce {
			continue
		}
		for root := range 4 {
			verify(t, p, Options{Ranks: 4, Root: root})
		}
	}
}
