package verify

import (
	"errors"
	"strings"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/test/sketch"
)

// Plans that are correct for many message sizes and wrong for some others.

// handed is a plan for two ranks: rank 0 loops over sends, unit by unit of chunks, and rank 1 over waits.
func handed(unit [2]int64, chunks [2]int) *sketch.Plan {
	n := max(chunks[0], chunks[1])
	p := mesh("handed", "hand_out", 2, 1, n, n, 0)
	p.MaxSize = 1 << 40
	p.Postcondition = []plan.Postcond{{Rank: 1, Index: 0, Size: chunks[0], Of: []plan.Contribution{{Rank: 0, Index: 0}}}}
	loop := func(k int, ops ...plan.Op) plan.Op {
		return plan.Op{Name: plan.Pipeline, UnitSize: unit[k], NumChunks: chunks[k], Ops: ops}
	}
	p.Emit(1, 0, sync(plan.RlxSignal, 0))
	p.Emit(0, 0, sync(plan.RlxWait, 0), nop, loop(0, put(in(0, chunks[0]), p.At(0, 1, plan.Output, 0, chunks[0])), nop,
		sync(plan.Signal, 0)))
	p.Emit(1, 0, loop(1, sync(plan.Wait, 0)))
	return p
}

// TestSizesOfPipelines: numbers of iterations that differ at a size far from what the units of the loops suggest.
func TestSizesOfPipelines(t *testing.T) {
	for _, c := range []struct {
		name   string
		unit   [2]int64
		chunks [2]int
		min    uint64
		want   string // "" for a right plan
	}{
		{"equal", [2]int64{64, 64}, [2]int{1, 1}, 0, ""},
		{"equal, from a large message on", [2]int64{64, 64}, [2]int{1, 1}, 1 << 16, ""},
		{"equal, in another way", [2]int64{64, 192}, [2]int{1, 3}, 0, ""},
		{"other units", [2]int64{64, 128}, [2]int{1, 1}, 0, "signals or releases and"},
		{"almost equal, from a smallest message on", [2]int64{1024, 1008}, [2]int{1, 1}, 4032, "not examined, because"},
		{"almost equal, for long", [2]int64{16, 160016}, [2]int{1, 10000}, 0, "not examined, because"},
		{"units beyond all messages", [2]int64{1 << 60, 1 << 61}, [2]int{1, 1}, 0, ""},
		{"messages beyond all units", [2]int64{1 << 16, 1 << 16}, [2]int{1, 1}, 1 << 40, ""},
		{"more iterations than are run", [2]int64{16, 16}, [2]int{1, 1}, 1 << 20, ""},
	} {
		p := handed(c.unit, c.chunks)
		p.MinSize = c.min
		expect(t, c.name, p, c.want)
	}
}

// TestSizesOfPipelinesApart: a loop over large units, wrong from its second iteration on, next to one over small units.
func TestSizesOfPipelinesApart(t *testing.T) {
	p := handed([2]int64{16, 16}, [2]int{1, 1})
	large := plan.Op{Name: plan.Pipeline, UnitSize: 1 << 20, NumChunks: 1}
	p.GPUs[0].ThreadBlocks[0].Ops = append(p.GPUs[0].ThreadBlocks[0].Ops, with(large, sync(plan.Signal, 0)))
	p.GPUs[1].ThreadBlocks[0].Ops = append(p.GPUs[1].ThreadBlocks[0].Ops, sync(plan.Wait, 0))
	expect(t, "apart", p, "signals or releases and")
	p.MaxSize = 1 << 16
	expect(t, "apart, and small messages", p, "")
}

func with(loop plan.Op, body ...plan.Op) plan.Op {
	loop.Ops = body
	return loop
}

// sliced is an all-gather of one rank through scratch: a group of writers thread blocks writes, then a group of readers
// thread blocks reads.
func sliced(writers, readers int) *sketch.Plan {
	n := max(writers, readers)
	p := mesh("sliced", plan.AllGather, 1, n, 1, 1, 1)
	for b := range writers {
		p.Emit(0, b, slice(copyOp(in(0, 1), scratch(0, 1)), b, writers))
	}
	for b := range readers { // reads what this block has written, if the groups are equal
		p.Emit(0, b, nop, slice(copyOp(scratch(0, 1), out(0, 1)), b, readers))
	}
	return p
}

func slice(op plan.Op, i, n int) plan.Op {
	op.Slice = plan.Slice{Index: i, Count: n}
	return op
}

// TestSizesOfSlices: which slices overlap depends on the number of units in a chunk.
func TestSizesOfSlices(t *testing.T) {
	expect(t, "equal groups", sliced(4, 4), "")
	expect(t, "equal groups, and large", sliced(512, 512), "")
	expect(t, "4 and 2", sliced(4, 2), "data race")

	// Groups of 4 and 2 whose slices meet at all multiples of 4 units, next to a loop.
	p := mesh("sliced", plan.AllGather, 1, 4, 1, 1, 1)
	for b := range 4 {
		p.Emit(0, b, slice(copyOp(in(0, 1), scratch(0, 1)), b, 4))
		p.Emit(0, b, plan.Op{Name: plan.Barrier, BarrierID: b / 2, NumThreadBlocks: 2})
		if b&1 == 0 {
			p.Emit(0, b, slice(copyOp(scratch(0, 1), out(0, 1)), b/2, 2))
		}
	}
	expect(t, "4 and 2, by halves", p, "data race")
	p.Emit(0, 3, with(plan.Op{Name: plan.Pipeline, UnitSize: 1 << 12, NumChunks: 1}, nop))
	expect(t, "4 and 2, by halves, beside a loop", p, "data race")

	p = mesh("many_slices", plan.AllGather, 1, 23, 1, 1, 1)
	for _, n := range []int{7, 11, 13, 17, 19, 23} {
		for b := range 23 {
			if b < n {
				p.Emit(0, b, slice(copyOp(in(0, 1), out(0, 1)), b, n))
			}
			p.Emit(0, b, plan.Op{Name: plan.Barrier, BarrierID: n, NumThreadBlocks: 23})
		}
	}
	expect(t, "many groups", p, "not examined, because")
	p.Emit(0, 3, with(plan.Op{Name: plan.Pipeline, UnitSize: 1 << 12, NumChunks: 1}, nop))
	expect(t, "many groups beside a loop", p, "not examined, because")
}

func expect(t *testing.T, name string, p *sketch.Plan, want string) {
	t.Helper()
	_, err := Check(p.Plan, Options{})
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", name, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v, want %s", name, err, want)
	case strings.Contains(want, "examined") && !errors.Is(err, ErrTooLarge):
		t.Errorf("%s: %v is not of class ErrTooLarge", name, err)
	}
}
