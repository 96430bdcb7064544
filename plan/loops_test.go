package plan

import (
	"slices"
	"testing"
)

// Plans with pipelines whose fault shows only after some iterations, or only for messages of some sizes.

// staged is a plan for one rank: block 0 copies input, window by window, to scratch, and block 1 from there to output.
// A semaphore says which windows are there; block 0 may be ahead windows ahead of what block 1 has signalled.
func staged(ahead int) *Plan {
	p := mesh("staged", AllReduce, 1, 2, 1, 1, 1)
	p.GPUs[0].Semaphores = []Semaphore{{}, {InitValue: ahead}}
	sem := func(name OpName, id int) Op { return Op{Name: name, SemaphoreIDs: []int{id}} }
	loop := func(ops ...Op) Op { return with(Op{Name: Pipeline, UnitSize: 4096, NumChunks: 1}, ops...) }
	p.emit(0, 0, loop(sem(SemAcquire, 1), copyOp(Local(Input, 0, 1), Local(Scratch, 0, 1)), nop, sem(SemRelease, 0)))
	p.emit(0, 1, loop(sem(SemAcquire, 0), nop, copyOp(Local(Scratch, 0, 1), Local(Output, 0, 1)), nop, sem(SemRelease, 1)))
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

// TestLookAhead: a pipeline over two chunks reads the second one as many iterations later as the first one has
// windows. A block that overwrites it by windows of its own waits for four of them, so it is wrong from 16 KiB on.
func TestLookAhead(t *testing.T) {
	p := mesh("ahead", "hand_out", 1, 2, 2, 2, 2)
	p.MaxSize = 1 << 30
	p.GPUs[0].Semaphores = []Semaphore{{}}
	sem := func(name OpName) Op { return Op{Name: name, SemaphoreIDs: []int{0}} }
	p.Postcondition = []Postcond{{Rank: 0, Index: 1, Size: 1, Of: []Contribution{{0, 1}}}}
	p.emit(0, 0, copyOp(Local(Input, 0, 2), Local(Scratch, 0, 2)), nop,
		Op{Name: Barrier, BarrierID: 0, NumThreadBlocks: 2},
		with(Op{Name: Pipeline, UnitSize: 4096, NumChunks: 2}, copyOp(Local(Scratch, 0, 2), Local(Output, 0, 2)), nop,
			sem(SemRelease)))
	p.emit(0, 1, Op{Name: Barrier, BarrierID: 0, NumThreadBlocks: 2}, sem(SemAcquire), sem(SemAcquire), sem(SemAcquire),
		sem(SemAcquire), nop, with(Op{Name: Pipeline, UnitSize: 2048, NumChunks: 1}, sem(SemAcquire), nop,
			copyOp(Local(Input, 0, 1), Local(Scratch, 1, 1))))
	for range 4 {
		p.emit(0, 0, sem(SemRelease))
	}
	expect(t, "two ways to walk through a chunk", p, "not examined, because pipelines divide the same data in two ways")
	p.GPUs[0].ThreadBlocks[1].Ops[6].UnitSize, p.GPUs[0].ThreadBlocks[1].Ops[6].NumChunks = 4096, 2
	expect(t, "operands of another length", p, "not examined, because")
}

// TestPacketsThatAreNotAlwaysSent: for a message of one unit the second part of a chunk is empty, so nobody waits for
// its packets, and nothing follows from their arrival.
func TestPacketsThatAreNotAlwaysSent(t *testing.T) {
	build := func(part int) *Plan {
		p := mesh("parts", "hand_out", 2, 1, 1, 1, 1)
		p.Protocol, p.InPlace = LL, true
		p.Postcondition = []Postcond{{Rank: 1, Index: 0, Size: 1, Of: []Contribution{{0, 0}}}}
		p.emit(0, 0, sync(RlxSignal, 0), sync(RlxWait, 0), nop)
		p.emit(1, 0, sync(RlxSignal, 0), sync(RlxWait, 0), nop)
		p.emit(1, 0, copyOp(Local(Input, 0, 1), Local(Scratch, 0, 1)), nop, slice(Op{Name: PutPackets,
			ChannelType: MemoryChannel, Src: []Chunk{Local(Input, 0, 1)}, Dst: []Chunk{p.at(1, 0, Scratch, 0, 1)}}, part, 2),
			nop, sync(Wait, 0))
		p.emit(0, 0, put(Local(Input, 0, 1), p.at(0, 1, Output, 0, 1)), nop, sync(Signal, 0))
		read := slice(Op{Name: UnpackPackets, Src: []Chunk{Local(Scratch, 0, 1)}, Dst: []Chunk{Local(Scratch, 0, 1)}},
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
