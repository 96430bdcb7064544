package simulate_test

import (
	"math"
	"testing"

	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/simulate"
	"github.com/goccl/goccl/plan/symmetry"
)

// Representatives take the time that all ranks take.
func TestFoldedRunsTakeAsLong(t *testing.T) {
	for _, leaves := range []int{0, 1, 2} {
		m := machine(t)
		m.Rail.HostsPerLeaf, m.Rail.Oversubscription, m.Rail.Spine = leaves, 2, 1.5
		for _, c := range []struct {
			name   string
			o      programs.Options
			within float64
		}{
			{"allreduce_ring", programs.Options{Ranks: 8, Instances: 2}, 0},
			{"allreduce_ring", programs.Options{Ranks: 16, Hosts: 4, Instances: 2}, 0},
			{"allreduce_hierarchical", programs.Options{Ranks: 8, Hosts: 4, Instances: 2}, 0.01},
			{"allreduce_hierarchical", programs.Options{Ranks: 32, Hosts: 16, Instances: 1}, 0.05},
			{"allreduce_twoshot_ll", programs.Options{Ranks: 8, Instances: 2}, 0.15},
			{"alltoall_direct", programs.Options{Ranks: 8, Hosts: 4, Instances: 1}, 0.1},
			{"allgather_direct", programs.Options{Ranks: 8, Instances: 2}, 0.02},
		} {
			m.RanksPerHost = c.o.Ranks / max(1, c.o.Hosts)
			m.NICsPerHost = max(1, m.RanksPerHost/2)
			p := build(t, c.name, c.o)
			f := symmetry.Fold(p)
			if f == nil {
				t.Fatalf("%s does not fold", c.name)
			}
			for _, size := range []int64{16 << 10, 1 << 20, 64 << 20} {
				if size > int64(p.MaxSize) {
					continue
				}
				want := run(t, p, m, size)
				got, err := simulate.RunFolded(f, m, size)
				if err != nil {
					t.Fatal(err)
				}
				if e := math.Abs(got.Micros/want.Micros - 1); e > c.within+1e-9 {
					t.Errorf("%s %+v, %d bytes, %d hosts a leaf: %.2f us folded (%d events), %.2f whole (%d): %.1f %%", c.name, c.o,
						size, leaves, got.Micros, got.Events, want.Micros, want.Events, 100*e)
				}
				if got.Events >= want.Events {
					t.Errorf("%s: %d events folded, %d whole", c.name, got.Events, want.Events)
				}
			}
		}
	}
}
