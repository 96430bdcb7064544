package programs

import (
	"slices"
	"testing"

	"github.com/goccl/goccl/plan"
)

// A program that is folded while it is written unfolds to what is written without folding.
func TestFoldedWhileWritten(t *testing.T) {
	for _, name := range []string{"allreduce_ring", "allgather_ring", "allreduce_hierarchical", "alltoall_direct"} {
		p, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []Options{{Ranks: 4, Instances: 1}, {Ranks: 12, Hosts: 3, Instances: 2},
			{Ranks: 32, Hosts: 16, Instances: 1}} {
			f, err := p.Fold(o)
			if err != nil || f == nil {
				t.Fatalf("%s %+v: %v, %v", name, o, f, err)
			}
			if _, err := f.Check(plan.VerifyOptions{}); err != nil {
				t.Fatalf("%s %+v: %v", name, o, err)
			}
			whole, err := p.Build(o)
			if err != nil {
				t.Fatal(err)
			}
			samePrograms(t, whole, f.Unfold())
		}
	}
}

func samePrograms(t *testing.T, a, b *plan.Plan) {
	t.Helper()
	for r := range a.GPUs {
		for k := range a.GPUs[r].ThreadBlocks {
			x, y := a.Program(r, k), b.Program(r, k)
			if len(x) != len(y) {
				t.Fatalf("%s: rank %d, thread block %d: %d and %d steps", a.Name, r, k, len(x), len(y))
			}
			for i := range x {
				if !sameStep(&x[i], &y[i]) {
					t.Fatalf("%s: rank %d, thread block %d, step %d:\n%+v\n%+v", a.Name, r, k, i, x[i], y[i])
				}
			}
		}
	}
}

func sameStep(x, y *plan.Step) bool {
	same := x.Op.Name == y.Op.Name && x.Does == y.Does && slices.Equal(x.Channels, y.Channels)
	return same && slices.EqualFunc(x.Moves, y.Moves, func(m, k plan.Move) bool {
		return m.Entry == k.Entry && slices.Equal(m.Src, k.Src) && slices.Equal(m.Dst, k.Dst)
	})
}
