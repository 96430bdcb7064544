package verify

import (
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/test/sketch"
)

// Plans that look wrong and are right.

// TestOneSize: the transfers of two_threads may meet the previous launch's scratch only in launches of other sizes.
func TestOneSize(t *testing.T) {
	p := twoThreads()
	expect(t, "any size", p, "data race")
	p.MinSize, p.MaxSize = 1<<20, 1<<20
	expect(t, "one size", p, "")
	p.GPUs[2].ThreadBlocks[0].Ops = p.GPUs[2].ThreadBlocks[0].Ops[1:] // its handshake with rank 0
	p.GPUs[0].ThreadBlocks[0].Ops[0].ChannelIDs = []int{0}
	expect(t, "one size, and no handshake", p, "data race")
}

// TestOneSizeOfPackets: an LL all-reduce needs no second half of scratch if all messages have one size. A rank has its
// owner's packet of the last launch before it sends to that owner again, and an owner has a packet of this launch from
// all before it sends to any.
func TestOneSizeOfPackets(t *testing.T) {
	p := sketch.AllReduceLL(3, false, false)
	expect(t, "single scratch, any size", p, "data race")
	p.MinSize, p.MaxSize = 3<<9, 3<<9
	expect(t, "single scratch", p, "")
	p = sketch.AllReduceLL(2, false, true)
	p.MinSize, p.MaxSize = 1<<10, 1<<10
	expect(t, "double scratch", p, "")
}

// acquirers is an all-gather of one rank: block 0 copies and releases a semaphore twice, and blocks 1 and 2 acquire it
// once each, in no order, before they go on.
func acquirers(releases ...int) *sketch.Plan {
	p := mesh("acquirers", plan.AllGather, 1, 3, 1, 1, 1)
	p.GPUs[0].Semaphores = []plan.Semaphore{{}}
	sem := func(name plan.OpName) plan.Op { return plan.Op{Name: name, SemaphoreIDs: []int{0}} }
	p.Emit(0, 0, copyOp(in(0, 1), scratch(0, 1)), nop)
	for _, b := range releases {
		p.Emit(0, b, sem(plan.SemRelease))
	}
	p.Emit(0, 1, sem(plan.SemAcquire), nop)
	p.Emit(0, 2, sem(plan.SemAcquire), nop, copyOp(scratch(0, 1), out(0, 1)))
	return p
}

// TestUnorderedAcquirers: which of two acquirers gets which release makes no difference when both releases come after
// all that either acquirer needs, and neither release waits for one of them.
func TestUnorderedAcquirers(t *testing.T) {
	expect(t, "two releases by the block that copies", acquirers(0, 0), "")
	expect(t, "one release by a block that copies nothing", acquirers(1, 0), "ambiguous")
	p := acquirers(0, 0)
	ops := p.GPUs[0].ThreadBlocks[0].Ops
	p.GPUs[0].ThreadBlocks[0].Ops = ops[:len(ops)-1]
	p.Emit(0, 1, ops[len(ops)-1]) // behind its acquire
	expect(t, "one acquirer makes way for the other", p, "ambiguous")
}

// preacquired is an all-gather of one rank. Block 0 copies and releases a semaphore that starts at 1. Block 1 acquires
// it twice, so that the second comes after the copy, and gives one back when it is done.
func preacquired(block1 ...plan.Op) *sketch.Plan {
	p := mesh("preacquired", plan.AllGather, 1, 2, 1, 1, 1)
	p.GPUs[0].Semaphores = []plan.Semaphore{{InitValue: 1}, {}}
	p.Emit(0, 0, copyOp(in(0, 1), scratch(0, 1)), nop, plan.Op{Name: plan.SemRelease, SemaphoreIDs: []int{0}})
	p.Emit(0, 1, block1...)
	return p
}

// TestOwnReleases: a release cannot satisfy an earlier acquire of the same thread. It can satisfy a later acquire, or
// an acquire by another thread of the block if the threads have not met in between.
func TestOwnReleases(t *testing.T) {
	sem := func(name plan.OpName, ids ...int) plan.Op { return plan.Op{Name: name, SemaphoreIDs: ids} }
	take, give := sem(plan.SemAcquire, 0), sem(plan.SemRelease, 0)
	copied := copyOp(scratch(0, 1), out(0, 1))
	expect(t, "given back at the end", preacquired(take, take, nop, copied, nop, give), "")
	expect(t, "given back by the thread that acquires", preacquired(take, take, give, nop, copied, nop), "")
	expect(t, "given back too early", preacquired(take, give, take, nop, copied, nop), "data race")
	expect(t, "given back by another thread", preacquired(take, take, sem(plan.SemRelease, 1, 0), nop, copied, nop,
		sem(plan.SemAcquire, 1), nop), "data race")
	expect(t, "and that after all have met", preacquired(take, take, nop, copied, nop, sem(plan.SemRelease, 1, 0), nop,
		sem(plan.SemAcquire, 1), nop), "")
}

// handedBack is an all-gather of one rank. Block 1 acquires semaphore 0 for block 0's copy, and again when it is done.
// The second release comes from block 2, which told lets know of the copy to output.
func handedBack(early bool, told ...plan.Op) *sketch.Plan {
	p := mesh("handed_back", plan.AllGather, 1, 4, 1, 1, 1)
	p.GPUs[0].Semaphores = []plan.Semaphore{{}, {}, {}}
	sem := func(name plan.OpName, id int) plan.Op { return plan.Op{Name: name, SemaphoreIDs: []int{id}} }
	p.Emit(0, 0, copyOp(in(0, 1), scratch(0, 1)), nop, sem(plan.SemRelease, 0))
	if early {
		p.Emit(0, 1, sem(plan.SemRelease, 1))
	}
	p.Emit(0, 1, sem(plan.SemAcquire, 0), nop, copyOp(scratch(0, 1), out(0, 1)), nop)
	if !early {
		p.Emit(0, 1, sem(plan.SemRelease, 1))
	}
	p.Emit(0, 1, sem(plan.SemAcquire, 0))
	p.Emit(0, 2, sem(plan.SemAcquire, 1))
	p.Emit(0, 2, told...)
	return p
}

// TestLaterReleases: what another block releases after an acquire is not what that acquired.
func TestLaterReleases(t *testing.T) {
	sem := func(name plan.OpName, id int) plan.Op { return plan.Op{Name: name, SemaphoreIDs: []int{id}} }
	give := sem(plan.SemRelease, 0)
	expect(t, "handed back", handedBack(false, nop, give), "")
	expect(t, "handed back at any time", handedBack(true, nop, give), "data race")
	expect(t, "by a thread that may be another", handedBack(false, plan.Op{Name: plan.SemRelease,
		SemaphoreIDs: []int{2, 0}}, nop, sem(plan.SemAcquire, 2)), "data race")
	p := handedBack(false, nop, sem(plan.SemRelease, 2)) // by way of block 3
	p.Emit(0, 3, sem(plan.SemAcquire, 2), nop, give)
	expect(t, "handed on and back", p, "")
	p = handedBack(false, nop, give)
	ops := p.GPUs[0].ThreadBlocks[1].Ops
	p.GPUs[0].ThreadBlocks[1].Ops = append(ops[:1:1], ops[2:]...) // no nop behind the first acquire
	expect(t, "read by other threads", p, "data race")
}
