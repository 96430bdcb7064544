package plan_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/test/interp"
	"github.com/goccl/goccl/test/plans"
)

// relayed is an all-to-all-v of three ranks that sends everything by way of the next rank, in whose scratch it waits.
// The two hops, and the last copy, are limited by counts if the flags say so.
func relayed(t *testing.T, change func(hop, src, dst int) *plan.Bound) *plan.Plan {
	t.Helper()
	const n = 3
	p := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "relayed", Collective: dsl.AllToAll(n, 2, false), Instances: 2,
		MinMessageSize: 1, MaxMessageSize: 1 << 30})
	to := map[[2]int]*dsl.MemoryChannel{}
	var scratch [n]*dsl.Buffer
	for r := range n {
		scratch[r] = p.Rank(r).Scratch(2 * n)
		for q := range n {
			if q != r {
				to[[2]int{r, q}] = p.MemoryChannel(q, r)
			}
		}
	}
	options := func(hop, src, dst int) []dsl.Option {
		o := []dsl.Option{dsl.TB(0)}
		if b := change(hop, src, dst); b != nil {
			o = append(o, dsl.Counted(b.Src, b.Dst, b.Index))
		}
		return o
	}
	all := func(f func(c *dsl.MemoryChannel)) {
		for r := range n {
			for i := 1; i < n; i++ {
				f(to[[2]int{r, (r + i) % n}])
			}
		}
	}
	all(func(c *dsl.MemoryChannel) { c.Signal(dsl.TB(0), dsl.Relaxed()) })
	all(func(c *dsl.MemoryChannel) { c.Wait(dsl.TB(0), dsl.Relaxed()) })
	for r := range n {
		next := (r + 1) % n
		for dst := range n {
			from := p.Rank(r).Input().Slice(2*dst, 2*dst+2)
			to[[2]int{r, next}].Put(scratch[next].Slice(2*dst, 2*dst+2), from, options(0, r, dst)...)
		}
	}
	all(func(c *dsl.MemoryChannel) { c.Signal(dsl.TB(0)) })
	all(func(c *dsl.MemoryChannel) { c.Wait(dsl.TB(0)) })
	for r := range n {
		src := (r + n - 1) % n
		for dst := range n {
			at, from := p.Rank(dst).Output().Slice(2*src, 2*src+2), scratch[r].Slice(2*dst, 2*dst+2)
			if dst == r {
				p.Rank(r).Copy(at, from, options(1, src, dst)...)
			} else {
				to[[2]int{r, dst}].Put(at, from, options(1, src, dst)...)
			}
		}
	}
	all(func(c *dsl.MemoryChannel) { c.Signal(dsl.TB(0)) })
	all(func(c *dsl.MemoryChannel) { c.Wait(dsl.TB(0)) })
	made, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	out, err := plan.Decode(made.Encode())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// right limits every hop by the count of the pair whose bytes it moves.
func right(_, src, dst int) *plan.Bound { return &plan.Bound{Src: src, Dst: dst} }

func randomCounts(rng *rand.Rand, n int, block int64) [][]int64 {
	out := make([][]int64, n)
	for r := range out {
		for range n {
			c := rng.Int64N(block + 2)
			if rng.IntN(4) == 0 {
				c = 0
			}
			out[r] = append(out[r], c)
		}
	}
	return out
}

// TestCounts proves plans with counts, and runs them with many tables of counts.
func TestCounts(t *testing.T) {
	direct, err := plans.AllToAllV(3)
	if err != nil {
		t.Fatal(err)
	}
	first := func(hop, src, dst int) *plan.Bound {
		if hop > 0 {
			return nil
		}
		return right(hop, src, dst)
	}
	for name, p := range map[string]*plan.Plan{"direct": direct, "relayed": relayed(t, right),
		"relayed, first hop": relayed(t, first)} {
		report, err := verify.Check(p, verify.Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if report.EvenOnly {
			t.Errorf("%s: even messages only", name)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for seed := range uint64(40) {
			block := 1 + rng.Uint64N(300)
			block -= block % 8
			block += 8
			sizes := []uint64{3 * block, 3 * block}
			if err := interp.CheckCounts(p, sizes, randomCounts(rng, 3, int64(block)), seed); err != nil {
				t.Fatalf("%s, blocks of %d bytes: %v", name, block, err)
			}
		}
		if err := interp.CheckCollective(p, []uint64{3 * 64}, 1); err != nil {
			t.Errorf("%s, full: %v", name, err)
		}
	}
}

// TestWrongCounts: a plan that is right with full blocks and loses bytes for some counts is refused, and loses them.
func TestWrongCounts(t *testing.T) {
	for name, wrong := range map[string]func(hop, src, dst int) *plan.Bound{
		"of another pair": func(hop, src, dst int) *plan.Bound {
			if hop == 0 && src == 1 && dst == 2 {
				return &plan.Bound{Src: 2, Dst: 1}
			}
			return right(hop, src, dst)
		},
		"of the rank between": func(hop, src, dst int) *plan.Bound {
			if hop == 1 {
				return &plan.Bound{Src: (src + 1) % 3, Dst: dst}
			}
			return right(hop, src, dst)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := relayed(t, wrong)
			if err := interp.CheckCollective(p, []uint64{3 * 64}, 1); err != nil {
				t.Fatalf("full blocks are wrong, too: %v", err)
			}
			_, err := verify.Check(p, verify.Options{})
			var v *verify.Violation
			if !errors.As(err, &v) || v.Kind != verify.WrongResult || !strings.Contains(err.Error(), "limited by the count") {
				t.Fatalf("the verifier says %v", err)
			}
			rng := rand.New(rand.NewPCG(3, 4))
			for seed := range uint64(50) {
				if err = interp.CheckCounts(p, []uint64{3 * 64}, randomCounts(rng, 3, 64), seed); err != nil {
					return
				}
			}
			t.Error("no counts show it")
		})
	}
	for says, change := range map[string]func(p *plan.Plan, op *plan.Op){
		"only an alltoall":     func(p *plan.Plan, _ *plan.Op) { p.Collective = plan.AllReduce },
		"of 3 ranks":           func(_ *plan.Plan, op *plan.Op) { op.Bound.Dst = 3 },
		"chunks 3 to 4":        func(_ *plan.Plan, op *plan.Op) { op.Bound.Index = 3 },
		"moves no plain bytes": func(_ *plan.Plan, op *plan.Op) { *op = plan.Op{Name: plan.Nop, Bound: op.Bound} },
	} {
		p := relayed(t, right)
		for _, op := range p.GPUs[1].Ops() {
			if op.Bound != nil {
				change(p, op)
				break
			}
		}
		if err := p.Validate(&plan.Capacity); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
