package simulate_test

import (
	"testing"

	"github.com/goccl/goccl/dsl/programs"
	"github.com/goccl/goccl/plan/simulate"
)

func machine(t testing.TB) *simulate.Machine {
	m, err := simulate.NamedMachine("h200")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPrint(t *testing.T) {
	m := machine(t)
	for _, p := range programs.All() {
		for _, o := range []programs.Options{{Ranks: 8}, {Ranks: 16, Hosts: 2}} {
			if p.Supports(o) != nil {
				continue
			}
			pl, err := p.Build(o)
			if err != nil {
				t.Fatal(err)
			}
			for _, size := range []int64{1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 28} {
				if uint64(size) > pl.MaxSize {
					continue
				}
				r, err := simulate.Run(pl, m, size)
				if err != nil {
					t.Fatal(p.Name, err)
				}
				t.Logf("%-24s %2d ranks %10d B %10.2f us busbw %7.2f  %d events", p.Name, o.Ranks, size, r.Micros, r.BusBW, r.Events)
			}
		}
	}
}
