package interp_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/test/interp"
)

// shipped builds every shipped program, in the given shapes.
func shipped(t testing.TB, shapes []programs.Options, f func(name string, p *plan.Plan)) {
	for _, prog := range programs.All() {
		for _, o := range shapes {
			for _, inPlace := range []bool{false, true} {
				o.InPlace = inPlace
				if prog.Supports(o) != nil {
					continue
				}
				p, err := prog.Build(o)
				if err != nil {
					t.Fatal(err)
				}
				f(fmt.Sprintf("%s/%d-%d-%v", prog.Name, o.Ranks, max(1, o.Hosts), inPlace), p)
			}
		}
	}
}

// sizes returns a few messages that p takes: even and uneven, smaller and larger than a chunk for each rank, changing
// between launches.
func sizes(p *plan.Plan, evenOnly bool) []uint64 {
	n := uint64(len(p.GPUs))
	unit := uint64(0)
	for _, g := range p.GPUs {
		unit = max(unit, uint64(max(g.InputChunks, g.OutputChunks))*uint64(p.Alignment))
	}
	want := []uint64{unit, 8 * n, unit*2 + 8*n, unit * 3}
	var out []uint64
	for _, size := range want {
		l, err := p.NewLayout(size)
		if err == nil && (!evenOnly || l.Even()) {
			out = append(out, size)
		}
	}
	if len(out) == 0 {
		out = []uint64{p.MinSize}
	}
	return out
}

func TestShippedPrograms(t *testing.T) {
	shapes := []programs.Options{{Ranks: 2}, {Ranks: 3, Instances: 1}, {Ranks: 4, Hosts: 2, Instances: 1}}
	shipped(t, shapes, func(name string, p *plan.Plan) {
		t.Run(name, func(t *testing.T) {
			r, err := verify.Check(p, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(4) {
				if err := interp.CheckCollective(p, sizes(p, r.EvenOnly), seed); err != nil {
					t.Fatal(seed, err)
				}
			}
		})
	})
}

func TestDeadlockIsReported(t *testing.T) {
	p, err := programs.Build("allgather_direct", programs.Options{Ranks: 2, Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	tb := &p.GPUs[0].ThreadBlocks[0]
	for i := range tb.Ops {
		if tb.Ops[i].Name == plan.Signal {
			tb.Ops = append(tb.Ops[:i:i], tb.Ops[i+1:]...)
			break
		}
	}
	var dead *interp.DeadlockError
	if err := interp.CheckCollective(p, sizes(p, false), 1); !errors.As(err, &dead) {
		t.Fatalf("a plan without its signal: %v", err)
	}
}
