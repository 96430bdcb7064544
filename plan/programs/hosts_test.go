package programs

import (
	"fmt"
	"os"
	"testing"

	"github.com/goccl/goccl/plan/simulate"
	"github.com/goccl/goccl/plan/verify"
)

// overHosts are the programs that do what engine/hosts does: within hosts and along rails, and directly.
var overHosts = []string{"allreduce_hierarchical", "allreduce_ring", "allreduce_tree", "allgather_hierarchical",
	"allgather_direct", "allgather_ring", "reducescatter_hierarchical", "reducescatter_push", "alltoall_direct",
	"broadcast_scatter", "reduce_push", "sendrecv_direct"}

// Each algorithm is proven on two to four hosts of two to eight ranks, with GOCCL_FULL=1 on each of these and without
// reference to what ranks have in common.
func TestProgramsOverHosts(t *testing.T) {
	full := os.Getenv("GOCCL_FULL") != ""
	for _, name := range overHosts {
		p, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for hosts := 2; hosts <= 4; hosts++ {
			for per := 2; per <= 8; per++ {
				if !full && per > 3 && (per < 8 || hosts < 4) {
					continue
				}
				for _, inPlace := range []bool{false, true} {
					o := Options{Ranks: hosts * per, Hosts: hosts, Instances: 1, InPlace: inPlace}
					if p.Supports(o) != nil {
						continue
					}
					pl, err := p.Build(o)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := verify.Check(pl, verify.Options{Whole: full}); err != nil {
						t.Errorf("%s: %v", fmt.Sprint(name, hosts, per, inPlace), err)
					}
				}
			}
		}
	}
}

// Plans of many ranks are written, proven and simulated: 256 of them; with GOCCL_FULL=1 1,024, the three together in
// about 15 s of one core.
func TestThousandRanksAreProven(t *testing.T) {
	n := 256
	if os.Getenv("GOCCL_FULL") != "" {
		n = 1024
	}
	m, err := simulate.NamedMachine("h200")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"allreduce_ring", "allreduce_hierarchical", "allreduce_tree"} {
		p, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Ranks: n, Hosts: n / 8, Instances: 1}
		f, err := p.Fold(o)
		if err != nil {
			t.Fatal(err)
		}
		var r *verify.Report
		var us *simulate.Result
		if f != nil {
			if r, err = verify.CheckFolded(f, verify.Options{}); err == nil {
				us, err = simulate.RunFolded(f, m, 64<<20)
			}
		} else {
			pl, err2 := p.Build(o)
			if err2 != nil {
				t.Fatal(err2)
			}
			if r, err = verify.Check(pl, verify.Options{}); err == nil {
				us, err = simulate.Run(pl, m, 64<<20)
			}
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Logf("%s: %d ranks, %d examined, %d steps; %.0f us for 64 MiB", name, n, r.Examined, r.Steps, us.Micros)
	}
}
