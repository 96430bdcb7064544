package executor_test

import (
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/plan/programs"
)

// reducing lists programs that together contain every op that reduces.
var reducing = []string{"allreduce_direct", "allreduce_switch", "allreduce_twoshot_ll", "allreduce_ring",
	"reducescatter_push", "reduce_direct"}

// operators are all, or under the race detector one: they change arithmetic, and not who waits for whom.
func operators() datatype.Op {
	if testing.Short() {
		return 1
	}
	return datatype.NumOps
}

// arithmetic runs every type and operator over programs.
func arithmetic(t *testing.T, j *job, n int, names []string) {
	for _, name := range names {
		p, err := programs.Build(name, programs.Options{Ranks: n})
		if err != nil {
			t.Fatal(err)
		}
		xs := j.load(t, p)
		ctx := bounded(t)
		for ty := range datatype.NumTypes {
			for op := range operators() {
				for _, m := range messages(xs[0], n, ty.Size(), 1013*uint64(n)*uint64(ty.Size())) {
					c := planrun.Case{Message: m, Type: ty, Op: op, Seed: uint64(ty)*100 + uint64(op), Shift: 1}
					if err := j.run(ctx, xs, c); err != nil {
						t.Fatalf("%s: %v: %v", name, c, err)
					}
				}
			}
		}
	}
}

func TestHostArithmetic(t *testing.T) {
	for _, n := range []int{2, 3} {
		arithmetic(t, newJob(t, n, openHost), n, reducing)
	}
}

// TestHostOperatorOfThePlan: a plan whose reductions specify their operator runs with that operator only.
func TestHostOperatorOfThePlan(t *testing.T) {
	const n = 3
	j := newJob(t, n, openHost)
	for _, op := range []plan.ReduceOp{plan.Sum, plan.Min, plan.Max, plan.Prod} {
		p, err := programs.Build("allreduce_direct", programs.Options{Ranks: n, ReduceOp: op})
		if err != nil {
			t.Fatal(err)
		}
		xs := j.load(t, p)
		want := planrun.Operator(p, datatype.Sum)
		c := planrun.Case{Message: 4800, Type: datatype.Int32, Op: want}
		if err := j.run(bounded(t), xs, c); err != nil {
			t.Fatalf("%v: %v", op, err)
		}
		other := datatype.Min
		if want == other {
			other = datatype.Max
		}
		if err := xs[0].Takes(4800, datatype.Int32, other); err == nil {
			t.Errorf("a plan that reduces by %v takes %v", op, other)
		}
	}
}

// TestHostOperatorOfTheResult: in a named collective, a sum that makes no output has no say; where outputs have several
// operators, none may be an average.
func TestHostOperatorOfTheResult(t *testing.T) {
	p, err := programs.Build("allreduce_direct", programs.Options{Ranks: 2, ReduceOp: plan.Max})
	if err != nil {
		t.Fatal(err)
	}
	idle := plan.Op{Name: plan.ReduceLocal, ReduceOp: plan.Sum, Dst: []plan.Chunk{plan.Local(plan.Scratch, 0, 1)},
		Src: []plan.Chunk{plan.Local(plan.Input, 0, 1), plan.Local(plan.Input, 1, 1)}}
	p.GPUs[0].ScratchChunks = 1
	p.GPUs[0].ThreadBlocks = append(p.GPUs[0].ThreadBlocks, plan.ThreadBlock{ID: len(p.GPUs[0].ThreadBlocks),
		Ops: []plan.Op{idle}})
	several, err := plan.Decode(p.Encode())
	if err != nil {
		t.Fatal(err)
	}
	several.Collective, several.Postcondition = "several", nil
	for r := range several.GPUs {
		several.Postcondition = append(several.Postcondition, plan.Postcond{Rank: r, Op: plan.Max,
			Size: p.ChunkCount(r, plan.Output), Of: []plan.Contribution{{Rank: 0}, {Rank: 1}}})
	}
	j := newJob(t, 2, openHost)
	max, both, trusted := j.load(t, p)[0], j.load(t, several)[0], j.load(t, p, executor.Trusted())[0]
	for op, want := range map[datatype.Op][3]bool{datatype.Max: {true, false, false}, datatype.Sum: {false, true, false},
		datatype.Avg: {}, datatype.PreMulSum: {}} {
		for i, x := range []*executor.ExecutionPlan{max, both, trusted} {
			if err := x.Takes(4800, datatype.Int32, op); (err == nil) != want[i] {
				t.Errorf("plan %d, %v: %v", i, op, err)
			}
		}
	}
}

// TestHostEveryOperatorOfEveryPlan also covers ranks whose own program reduces nothing, which occur with odd numbers of
// ranks.
func TestHostEveryOperatorOfEveryPlan(t *testing.T) {
	if testing.Short() {
		t.Skip("TestHostPrograms runs the same programs: these differ in arithmetic")
	}
	ranks := []int{5}
	if setting.Lenient().Full != "" {
		ranks = []int{3, 5, 7}
	}
	for _, n := range ranks {
		j := newJob(t, n, openHost)
		shipped(t, n, func(name string, p *plan.Plan) {
			xs := j.load(t, p)
			ctx := bounded(t)
			for _, op := range []datatype.Op{datatype.Sum, 1 + datatype.Op(rand.IntN(int(datatype.NumOps)-1))} {
				for _, m := range messages(xs[0], n, 4, 1200*uint64(n)) {
					c := planrun.Case{Message: m, Type: datatype.Float32, Op: op, Seed: uint64(op), InPlace: p.InPlace}
					if err := j.run(ctx, xs, c); err != nil {
						t.Errorf("%s: %v: %v", name, c, err)
					}
				}
			}
		})
	}
}
