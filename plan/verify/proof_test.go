package verify

import (
	"errors"
	"strings"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/test/sketch"
)

// A packet proves that its writer has read what the packet was made from. These plans rely on that further on: after a
// signal, a barrier, the end of a launch, or in the thread that has just received the packet.

// packetChain sends a chunk from rank 0 to 1 to 2, by packets through one half of scratch. Rank 2 tells rank 0 when all
// its threads have them, which proves that rank 1 has read its own.
func packetChain(told ...plan.Op) *sketch.Plan {
	p := mesh("packet_chain", "hand_out", 3, 1, 1, 1, 1)
	p.Protocol = plan.LL
	p.Postcondition = []plan.Postcond{holds(2, 0, 0, 0)}
	p.Emit(0, 0, putPackets(in(0, 1), p.At(0, 1, plan.Scratch, 0, 1)), sync(plan.Wait, 1))
	p.Emit(1, 0, plan.Op{Name: plan.ReadPutPackets, ChannelType: plan.MemoryChannel, Src: []plan.Chunk{scratch(0, 1)},
		Dst: []plan.Chunk{p.At(1, 2, plan.Scratch, 0, 1)}})
	p.Emit(2, 0, unpack(scratch(0, 1), out(0, 1)))
	p.Emit(2, 0, told...)
	return p
}

// relayed hands a chunk from rank 0 to 1 by packets. Rank 1 tells rank 2, which overwrites the chunk.
func relayed(told ...plan.Op) *sketch.Plan {
	p := mesh("relayed", "hand_out", 3, 1, 3, 3, 1)
	p.Protocol, p.InPlace, p.DoubleScratch = plan.LL, true, true
	p.Postcondition = []plan.Postcond{holds(1, 1, 0, 0)}
	p.Emit(0, 0, sync(plan.RlxSignal, 1), putPackets(in(0, 1), p.At(0, 1, plan.Scratch, 0, 1)),
		copyOp(in(2, 1), out(1, 1)), sync(plan.Wait, 1)) // nothing proves the copy
	p.Emit(1, 0, unpack(scratch(0, 1), out(1, 1)))
	p.Emit(1, 0, told...)
	p.Emit(2, 0, sync(plan.RlxWait, 0), sync(plan.Wait, 1), nop, put(in(1, 1), p.At(2, 0, plan.Input, 0, 1)), nop,
		sync(plan.Signal, 0))
	return p
}

// answered: rank 0 gets a chunk of scratch from rank 1, and answers by a packet, which rank 1 unpacks over it.
func answered(between ...plan.Op) *sketch.Plan {
	p := mesh("answered", "hand_out", 2, 1, 1, 1, 2)
	p.Protocol = plan.LL
	p.Postcondition = []plan.Postcond{holds(0, 0, 1, 0)}
	p.Emit(1, 0, copyOp(in(0, 1), scratch(0, 1)), nop, sync(plan.Signal, 0),
		unpack(scratch(1, 1), scratch(0, 1)), nop, sync(plan.Signal, 0))
	p.Emit(0, 0, sync(plan.Wait, 0), nop, get(p.At(0, 1, plan.Scratch, 0, 1), out(0, 1)))
	p.Emit(0, 0, between...)
	p.Emit(0, 0, putPackets(in(0, 1), p.At(0, 1, plan.Scratch, 1, 1)), sync(plan.Wait, 0))
	return p
}

// halves: rank 0 sends a chunk as packets, which two thread blocks of rank 1 unpack, half each. When both have, block
// 0 overwrites the chunk.
func halves(meet plan.Op) *sketch.Plan {
	p := mesh("halves", "hand_out", 2, 2, 1, 1, 1)
	p.Protocol, p.InPlace, p.DoubleScratch = plan.LL, true, true
	p.Emit(0, 0, sync(plan.RlxSignal, 0), putPackets(in(0, 1), p.At(0, 1, plan.Scratch, 0, 1)), sync(plan.Wait, 0))
	for b := range 2 {
		half := unpack(scratch(0, 1), out(0, 1))
		half.Slice = plan.Slice{Index: b, Count: 2}
		p.Emit(1, b, half, meet)
	}
	p.Emit(1, 0, sync(plan.RlxWait, 0), nop, put(out(0, 1), p.At(1, 0, plan.Input, 0, 1)), nop, sync(plan.Signal, 0))
	p.Postcondition = []plan.Postcond{holds(1, 0, 0, 0)}
	return p
}

func TestProofsTravel(t *testing.T) {
	tell := func(peer int) plan.Op { return sync(plan.Signal, peer) }
	expect(t, "a chain, told by signal", packetChain(nop, tell(0)), "")
	expect(t, "a chain, told too early", packetChain(tell(0)), "data race")
	expect(t, "relayed", relayed(nop, tell(1)), "")
	expect(t, "relayed too early", relayed(tell(1), nop), "data race")
	expect(t, "answered", answered(nop), "")
	expect(t, "answered too early", answered(), "data race")
	expect(t, "halves", halves(plan.Op{Name: plan.Barrier, BarrierID: 0, NumThreadBlocks: 2}), "")
	expect(t, "halves that do not meet", halves(nop), "data race")
	p := relayed(nop, tell(1))
	ops := p.GPUs[0].ThreadBlocks[0].Ops
	ops[1], ops[2] = ops[2], ops[1]
	expect(t, "relayed, behind a copy", p, "")
	ops[1].Src[0] = in(0, 1)
	expect(t, "the source of a copy is overwritten", p, "data race")
}

// TestHintsAskForWhatIsMissing: a plan with two halves of scratch is not told to use them.
func TestHintsAskForWhatIsMissing(t *testing.T) {
	for _, double := range []bool{false, true} {
		p := packetChain()
		p.DoubleScratch = double
		ops := &p.GPUs[0].ThreadBlocks[0].Ops
		*ops = (*ops)[:1] // rank 0 hears from nobody
		_, err := Check(p.Plan, Options{})
		var v *Violation
		if !errors.As(err, &v) || strings.Contains(v.Hint, "use_double") == double {
			t.Errorf("double scratch %v: %v", double, err)
		}
	}
}

// acknowledged: both ranks copy a chunk to scratch, in slices of a block each, and get the other's. A packet of each
// slice says that it may be overwritten. Small messages have no second slice.
func acknowledged(blocks int, meets bool) *sketch.Plan {
	p := mesh("acknowledged", "hand_out", 2, blocks, 2, 2, 3)
	p.Protocol = plan.LL
	for r := range 2 {
		for b := range blocks {
			slice := func(op plan.Op) plan.Op {
				op.Slice = plan.Slice{Index: b, Count: blocks}
				return op
			}
			p.Emit(r, b, slice(copyOp(in(0, 1), scratch(0, 1))), nop, sync(plan.Signal, 0), sync(plan.Wait, 0), nop)
			p.Emit(r, b, slice(get(p.At(r, 1-r, plan.Scratch, 0, 1), out(0, 1))))
			if meets {
				p.Emit(r, b, nop)
			}
			p.Emit(r, b, slice(putPackets(in(0, 1), p.At(r, 1-r, plan.Scratch, 1, 1))),
				slice(unpack(scratch(1, 1), scratch(2, 1))), nop,
				slice(copyOp(in(1, 1), scratch(0, 1))), nop, sync(plan.Signal, 0), sync(plan.Wait, 0))
		}
		p.Postcondition = append(p.Postcondition, holds(r, 0, 1-r, 0))
	}
	return p
}

func TestSlicesThatMayBeEmpty(t *testing.T) {
	expect(t, "one block", acknowledged(1, true), "")
	expect(t, "two blocks", acknowledged(2, true), "")
	expect(t, "three blocks", acknowledged(3, true), "")
	expect(t, "too early", acknowledged(2, false), "data race")
	p := acknowledged(2, true) // block 0 overwrites all, told by its own packets only
	p.GPUs[0].ThreadBlocks[0].Ops[10].Slice = plan.Slice{}
	expect(t, "the other's slice", p, "data race")
	p = acknowledged(2, true) // the packets of the second slice, which may be none, say that the first may be overwritten
	p.GPUs[0].ThreadBlocks[1].Ops[10].Slice = plan.Slice{Index: 0, Count: 2}
	p.GPUs[0].ThreadBlocks[0].Ops[10].Slice = plan.Slice{Index: 1, Count: 2}
	expect(t, "slices exchanged", p, "data race")
	p = acknowledged(2, true)
	p.DoubleScratch = true
	expect(t, "two halves of scratch", p, "")
}
