package programs

import (
	"fmt"
	"os"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/test/interp"
)

func proven(t *testing.T, p *Program, o Options) *plan.Plan {
	t.Helper()
	pl, err := p.Build(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verify.Check(pl, verify.Options{}); err != nil {
		t.Fatal(err)
	}
	return pl
}

func TestProgramsVerify(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *Program, o Options) {
		if p.Hierarchical {
			o.Instances = 1 // instances are equal, and pipelines have many message shapes
		}
		proven(t, p, o)
	})
}

// Many ranks: 32 of them; with GOCCL_FULL=1 2 to 64 on 1 to 8 hosts, in place and not, which takes minutes.
func TestProgramsVerifyAtManyRanks(t *testing.T) {
	ranks, places := []int{32}, []bool{false}
	if os.Getenv("GOCCL_FULL") != "" {
		ranks, places = []int{2, 3, 4, 6, 7, 8, 12, 16, 24, 32, 48, 64}, []bool{false, true}
	}
	plans := 0
	for _, p := range All() {
		if len(ranks) == 1 && p.Name == "allreduce_hierarchical_pipelined" {
			continue // TestHierarchicalProgramsVerify has smaller shapes
		}
		for _, n := range ranks {
			for _, hosts := range []int{1, 2, 4, 8} {
				for _, inPlace := range places {
					o := Options{Ranks: n, Hosts: hosts, Instances: 1, InPlace: inPlace}
					if len(ranks) == 1 && hosts > 1 && hosts < 4 || p.Supports(o) != nil {
						continue
					}
					plans++
					t.Run(fmt.Sprintf("%s/%d-%d-%v", p.Name, n, hosts, inPlace), func(t *testing.T) { proven(t, p, o) })
				}
			}
		}
	}
	t.Logf("%d plans", plans)
}

// Three launches in a row, of even and uneven messages, compute what the collective requires.
func TestProgramsComputeTheirCollective(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *Program, o Options) {
		if o.Ranks > 6 {
			t.Skip("the interpreter is slow; smaller shapes show as much")
		}
		o.Instances = 1
		pl, err := p.Build(o)
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(o.Ranks)
		sizes := []uint64{256 * n * n, 40 * n, 16 * n * n}
		if err := interp.CheckCollective(pl, sizes, 7); err != nil {
			t.Fatal(err)
		}
	})
}

func TestHierarchyOnManyHosts(t *testing.T) {
	p, err := Lookup("allreduce_hierarchical")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{Ranks: 32, Hosts: 16, Instances: 2}, {Ranks: 18, Hosts: 9, Instances: 2}} {
		for _, inPlace := range []bool{false, true} {
			o.InPlace = inPlace
			proven(t, p, o)
		}
	}
}

// The programs for hosts of equal GPUs: some shapes; with GOCCL_FULL=1 2 to 4 hosts of 2 to 8 ranks.
func TestHierarchicalProgramsVerify(t *testing.T) {
	shapes := []Options{{Ranks: 4, Hosts: 2, Instances: 2}, {Ranks: 9, Hosts: 3, Instances: 1}}
	if os.Getenv("GOCCL_FULL") != "" {
		shapes = nil
		for hosts := 2; hosts <= 4; hosts++ {
			for per := 2; per <= 8; per++ {
				shapes = append(shapes, Options{Ranks: hosts * per, Hosts: hosts, Instances: 1})
			}
		}
	}
	for _, p := range All() {
		if !p.Hierarchical {
			continue
		}
		for _, o := range shapes {
			for _, o.InPlace = range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d×%d-%v", p.Name, o.Hosts, o.perHost(), o.InPlace), func(t *testing.T) { proven(t, p, o) })
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
			proven(t, p, Options{Ranks: 4, Root: root})
		}
	}
}
