package verify

import (
	"slices"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/test/sketch"
)

// Plans with pipelines whose fault shows only after some iterations, or only for messages of some sizes.

// staged is a plan for one rank: block 0 copies input, window by window, to scratch, and block 1 from there to output.
// A semaphore says which windows are there; block 0 may be ahead windows ahead of what block 1 has signalled.
func staged(ahead int) *sketch.Plan {
	p := mesh("staged", plan.AllReduce, 1, 2, 1, 1, 1)
	p.GPUs[0].Semaphores = []plan.Semaphore{{}, {InitValue: ahead}}
	sem := func(name plan.OpName, id int) plan.Op { return plan.Op{Name: name, SemaphoreIDs: []int{id}} }
	loop := func(ops ...plan.Op) plan.Op {
		return with(plan.Op{Name: plan.Pipeline, UnitSize: 4096, NumChunks: 1}, ops...)
	}
	p.Emit(0, 0, loop(sem(plan.SemAcquire, 1), copyOp(in(0, 1), scratch(0, 1)), nop, sem(plan.SemRelease, 0)))
	p.Emit(0, 1, loop(sem(plan.SemAcquire, 0), nop, copyOp(scratch(0, 1), out(0, 1)), nop, sem(plan.SemRelease, 1)))
	return p
}

// TestAnyNumberOfIterations: the rhythm of the pipelines is found, or the plan is refused.
func TestAnyNumberOfIterations(t *testing.T) {
	for _, ahead := range []int{1, 2, 5, 12} {
		expect(t, "bounded", staged(ahead), "")
	}
	expect(t, "no window may be written", staged(0), "deadlock")
	expect(t, "far ahead", staged(1000), "not examined, because the pipeline at rank 0")
	p := staged(1000)
	p.MaxSize = 1 << 15
	expect(t, "far ahead, and small messages", p, "")

	p = staged(2)
	p.GPUs[0].ThreadBlocks[1].Ops[0].Ops[0], p.GPUs[0].ThreadBlocks[1].Ops[0].Ops[1] = nop,
		p.GPUs[0].ThreadBlocks[1].Ops[0].Ops[0]
	expect(t, "the data is read before the signal is known to all threads", p, "data race")
}

// TestLookAhead: a pipeline over two chunks reads the second one only after all windows of the first. Another block,
// whose pipeline overwrites the second chunk, waits for four windows first, so the plan is wrong from 16 KiB on.
func TestLookAhead(t *testing.T) {
	p := mesh("ahead", "hand_out", 1, 2, 2, 2, 2)
	p.MaxSize = 1 << 30
	p.GPUs[0].Semaphores = []plan.Semaphore{{}}
	sem := func(name plan.OpName) plan.Op { return plan.Op{Name: name, SemaphoreIDs: []int{0}} }
	p.Postcondition = []plan.Postcond{{Rank: 0, Index: 1, Size: 1, Of: []plan.Contribution{{Rank: 0, Index: 1}}}}
	p.Emit(0, 0, copyOp(in(0, 2), scratch(0, 2)), nop,
		plan.Op{Name: plan.Barrier, BarrierID: 0, NumThreadBlocks: 2},
		with(plan.Op{Name: plan.Pipeline, UnitSize: 4096, NumChunks: 2}, copyOp(scratch(0, 2), out(0, 2)), nop,
			sem(plan.SemRelease)))
	p.Emit(0, 1, plan.Op{Name: plan.Barrier, BarrierID: 0, NumThreadBlocks: 2}, sem(plan.SemAcquire), sem(plan.SemAcquire),
		sem(plan.SemAcquire), sem(plan.SemAcquire), nop,
		with(plan.Op{Name: plan.Pipeline, UnitSize: 2048, NumChunks: 1}, sem(plan.SemAcquire), nop,
			copyOp(in(0, 1), scratch(1, 1))))
	for range 4 {
		p.Emit(0, 0, sem(plan.SemRelease))
	}
	expect(t, "two ways to walk through a chunk", p, "not examined, because pipelines divide the same data in two ways")
	p.GPUs[0].ThreadBlocks[1].Ops[6].UnitSize, p.GPUs[0].ThreadBlocks[1].Ops[6].NumChunks = 4096, 2
	expect(t, "operands of another length", p, "not examined, because")
}

// TestPacketsThatAreNotAlwaysSent: for a message of one unit the second part of a chunk is empty, so nobody waits for
// its packets, and nothing follows from their arrival.
func TestPacketsThatAreNotAlwaysSent(t *testing.T) {
	build := func(part int) *sketch.Plan {
		p := mesh("parts", "hand_out", 2, 1, 1, 1, 1)
		p.Protocol, p.InPlace = plan.LL, true
		p.Postcondition = []plan.Postcond{{Rank: 1, Index: 0, Size: 1, Of: []plan.Contribution{{Rank: 0, Index: 0}}}}
		p.Emit(0, 0, sync(plan.RlxSignal, 0), sync(plan.RlxWait, 0), nop)
		p.Emit(1, 0, sync(plan.RlxSignal, 0), sync(plan.RlxWait, 0), nop)
		p.Emit(1, 0, copyOp(in(0, 1), scratch(0, 1)), nop, slice(putPackets(in(0, 1),
			p.At(1, 0, plan.Scratch, 0, 1)), part, 2),
			nop, sync(plan.Wait, 0))
		p.Emit(0, 0, put(in(0, 1), p.At(0, 1, plan.Output, 0, 1)), nop, sync(plan.Signal, 0))
		read := slice(plan.Op{Name: plan.UnpackPackets, Src: []plan.Chunk{scratch(0, 1)}, Dst: []plan.Chunk{scratch(0, 1)}},
			part, 2)
		p.GPUs[0].ThreadBlocks[0].Ops = slices.Insert(p.GPUs[0].ThreadBlocks[0].Ops, 3, read, nop)
		return p
	}
	expect(t, "the first part", build(0), "")
	expect(t, "the second part", build(1), "data race")
	p := build(1)
	p.MinSize = 32
	expect(t, "the second part, and messages that have it", p, "")
}
