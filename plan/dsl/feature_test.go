package dsl

import (
	"errors"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/test/interp"
)

// TestSpecReachesThePlan checks that the plan has the value of every field of AlgoSpec that plans have.
func TestSpecReachesThePlan(t *testing.T) {
	p := NewCollectiveProgram(AlgoSpec{
		Name: "all fields", Collective: SendRecv(2, 1, false), Protocol: LL, ReuseResources: true, ThreadsPerBlock: 256,
		UseDoubleScratchBuffer: true,
		BufferAlignment:        32, MinMessageSize: 64, MaxMessageSize: 1 << 16, InPlace: true,
		Tags: map[string]int{"hosts": 1},
	})
	out := compile(t, p)
	if out.Name != "all fields" || out.Collective != plan.SendRecv || out.Protocol != LL || !out.ReuseResources ||
		out.ThreadsPerBlock != 256 || !out.DoubleScratch ||
		out.Alignment != 32 || out.MinSize != 64 || out.MaxSize != 1<<16 || !out.InPlace {
		t.Errorf("%+v", out)
	}
}

// shift is a user-defined collective: chunk k of rank r becomes a copy of chunk k of rank r+by. demand is the shift
// that its postcondition states.
func shift(ranks, demand, by int) *CollectiveProgram {
	p := NewCollectiveProgram(AlgoSpec{Name: "shift",
		Collective: Custom("shift", ranks, 2, 2, false, func(rank, chunk int) []Contribution {
			return []Contribution{{Rank: (rank + demand) % ranks, Chunk: chunk}}
		})})
	for r := range ranks {
		to, from := (r+ranks-by)%ranks, (r+by)%ranks
		send, receive := p.MemoryChannel(to, r), p.MemoryChannel(from, r)
		receive.Signal(TB(0), Relaxed()) // ready
		send.Wait(TB(0), Relaxed())
		send.Put(p.Rank(to).Output().All(), p.Rank(r).Input().All(), TB(0))
		send.Signal(TB(0))
		receive.Wait(TB(0))
	}
	return p
}

func TestUserDefinedCollective(t *testing.T) {
	out := proven(t, shift(3, 1, 1))
	if len(out.Postcondition) == 0 || out.Collective != "shift" {
		t.Errorf("collective %q with %d postconditions", out.Collective, len(out.Postcondition))
	}
	if _, err := interp.Explore(out, interp.ExploreOptions{Sizes: []uint64{128, 64, 128}}); err != nil {
		t.Error(err)
	}
	wrong := compile(t, shift(3, 1, 2))
	var v *verify.Violation
	if _, err := verify.Check(wrong, verify.Options{}); !errors.As(err, &v) || v.Kind != verify.WrongResult {
		t.Errorf("a program with another result than its postcondition: %v", err)
	}
}

// The blocks of a group each process a slice; together they process everything, and the next step waits for all of
// them.
func TestThreadBlockGroupSharesAnOperation(t *testing.T) {
	build := func(meet bool) *plan.Plan {
		p := NewCollectiveProgram(AlgoSpec{Name: "group", Collective: SendRecv(2, 1, false)})
		for r := range 2 {
			rank, q := p.Rank(r), 1-r
			s := rank.Scratch(1)
			group := ThreadBlockGroup{0, 1, 2}
			rank.Copy(s.Chunk(0), rank.Input().Chunk(0), Group(group))
			if meet {
				rank.Barrier(0, 1, 2)
			}
			c := p.MemoryChannel(q, r)
			c.Signal(TB(0), Relaxed())
			c.Wait(TB(0), Relaxed())
			c.Put(p.Rank(q).Output().Chunk(0), s.Chunk(0), TB(0))
			c.Signal(TB(0))
			c.Wait(TB(0))
		}
		return compile(t, p)
	}
	out := build(true)
	for b := range 3 {
		op := out.GPUs[0].ThreadBlocks[b].Ops[0]
		if op.Name != plan.Copy || op.Slice != (plan.Slice{Index: b, Count: 3}) {
			t.Errorf("block %d: %s, slice %+v", b, op.Name, op.Slice)
		}
	}
	if _, err := verify.Check(out, verify.Options{}); err != nil {
		t.Error(err)
	}
	if _, err := verify.Check(build(false), verify.Options{}); err == nil {
		t.Error("without the barrier one block uses what others have not copied yet, and the verifier accepts it")
	}
}

// Reusing scratch for packets in every launch is safe with two alternating halves, and unsafe with one.
func TestDoubleScratch(t *testing.T) {
	for _, double := range []bool{true, false} {
		p := NewCollectiveProgram(AlgoSpec{Name: "exchange", Collective: SendRecv(3, 1, false), Protocol: LL,
			UseDoubleScratchBuffer: double})
		var scratch [3]*Buffer
		for r := range 3 {
			scratch[r] = p.Rank(r).Scratch(3)
		}
		for r := range 3 {
			for _, q := range []int{(r + 1) % 3, (r + 2) % 3} { // to both, so that each receives from each
				p.MemoryChannel(q, r).PutPackets(scratch[q].Chunk(r), p.Rank(r).Input().Chunk(0), TB(0))
			}
			from := (r + 2) % 3
			p.Rank(r).UnpackPackets(p.Rank(r).Output().Chunk(0), scratch[r].Chunk(from), TB(0))
			other := p.Rank(r).Scratch(1)
			p.Rank(r).UnpackPackets(other.Chunk(0), scratch[r].Chunk((r+1)%3), TB(0))
		}
		_, err := verify.Check(compile(t, p), verify.Options{})
		if double && err != nil {
			t.Error(err)
		}
		if !double && err == nil {
			t.Error("one half of scratch is accepted")
		}
	}
}
