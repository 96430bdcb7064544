package executor_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/plan/programs"
)

// turned is a user-defined collective of two ranks that gives every rank its own chunks, each in the place of the next
// one: correct for even messages only.
func turned(t *testing.T, chunks int) *plan.Plan {
	t.Helper()
	p := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "turned", Collective: dsl.Custom("turn", 2, chunks, chunks, false,
		func(rank, chunk int) []dsl.Contribution {
			return []dsl.Contribution{{Rank: rank, Chunk: (chunk + 1) % chunks}}
		})})
	for r := range 2 {
		me := p.Rank(r)
		for k := range chunks {
			me.Copy(me.Output().Chunk(k), me.Input().Chunk((k+1)%chunks), dsl.TB(0))
		}
	}
	out, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestHostEvenMessages: a plan for even messages can be loaded whatever its chunks, verified or trusted, and then takes
// even messages.
func TestHostEvenMessages(t *testing.T) {
	for _, chunks := range []int{2, 3, 7} {
		for _, opts := range [][]executor.Option{nil, {executor.Trusted()}, {executor.Reserve(1000)}} {
			j := newJob(t, 2, openHost)
			xs := j.load(t, turned(t, chunks), opts...)
			even := uint64(16 * chunks)
			for _, m := range []uint64{even, 100 * even} {
				if err := j.run(bounded(t), xs, planrun.Case{Message: m, Type: datatype.Float32}); err != nil {
					t.Errorf("%d chunks: %v", chunks, err)
				}
			}
			for _, m := range []uint64{4, even - 4, 1000} {
				err := j.run(bounded(t), xs, planrun.Case{Message: m, Type: datatype.Float32})
				if !errors.Is(err, collective.ErrInvalidArgument) || !strings.Contains(err.Error(), "equal chunks") {
					t.Errorf("%d chunks, %d bytes: %v", chunks, m, err)
				}
			}
		}
	}
}

// TestHostWholeElements: all ranks reject a message whose blocks end within an element, not only the rank that finds
// the partial element.
func TestHostWholeElements(t *testing.T) {
	const n = 3
	for _, name := range []string{"allreduce_direct", "allgather_direct", "reducescatter_direct", "alltoall_direct",
		"reduce_direct"} {
		p, err := programs.Build(name, programs.Options{Ranks: n})
		if err != nil {
			t.Fatal(err)
		}
		j := newJob(t, n, openHost)
		xs := j.load(t, p)
		for _, m := range []uint64{n, 6 * n, 50 * n, 4*n*n + n} {
			err := j.each(func(r int) error {
				err := xs[r].Takes(m, datatype.Float32, datatype.Sum)
				if !errors.Is(err, collective.ErrInvalidArgument) {
					t.Errorf("%s: rank %d takes %d bytes of float32: %v", name, r, m, err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		if err := xs[0].Takes(50*n, datatype.Float16, datatype.Sum); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
