package programs

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/verify"
)

// A program that is folded while it is written unfolds to the plan that is written without folding.
func TestFoldedWhileWritten(t *testing.T) {
	for _, name := range []string{"allreduce_ring", "allgather_ring", "allreduce_hierarchical", "alltoall_direct",
		"allreduce_hierarchical_pipelined"} {
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
			if _, err := verify.CheckFolded(f, verify.Options{}); err != nil {
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

// TestPipelinedCost: the proof of a plan with pipelines, whose ranks exchange with all hosts, costs little at 256
// ranks. It measures processor time.
func TestPipelinedCost(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of one core")
	}
	p, err := Lookup("allreduce_hierarchical_pipelined")
	if err != nil {
		t.Fatal(err)
	}
	f, err := p.Fold(Options{Ranks: 256, Hosts: 32, Instances: 1})
	if err != nil || f == nil {
		t.Fatal(f, err)
	}
	spent := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	begun := spent()
	if _, err := verify.CheckFolded(f, verify.Options{}); err != nil {
		t.Fatal(err)
	}
	if took := spent() - begun; took > 10*time.Second {
		t.Errorf("verification took %v, the stated limit is 10 s", took)
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
