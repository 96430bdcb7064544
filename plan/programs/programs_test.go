package programs

import (
	"fmt"
	"testing"

	"github.com/goccl/goccl/plan"
)

var shapes = []Options{{Ranks: 2}, {Ranks: 3}, {Ranks: 4}, {Ranks: 5}, {Ranks: 8}, {Ranks: 4, Hosts: 2},
	{Ranks: 6, Hosts: 3}, {Ranks: 16, Hosts: 8}}

func eachProgram(t *testing.T, f func(t *testing.T, p *Program, o Options)) {
	for _, p := range All() {
		for _, o := range shapes {
			for _, inPlace := range []bool{false, true} {
				o.InPlace = inPlace
				if p.Supports(o) != nil {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d-%d-%v", p.Name, o.Ranks, max(o.Hosts, 1), inPlace), func(t *testing.T) { f(t, p, o) })
			}
		}
	}
}

func TestProgramsCompileToValidPlans(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *Program, o Options) {
		pl, err := p.Build(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := pl.Validate(&plan.Capacity); err != nil {
			t.Fatal(err)
		}
	})
}
