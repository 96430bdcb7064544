package plan

import "testing"

// A packet proves that its writer has read what the packet was made from. These plans rely on that further on: after a
// signal, a barrier, the end of a launch, or in the thread that has just received the packet.

func putPackets(src, dst Chunk) Op {
	return Op{Name: PutPackets, ChannelType: MemoryChannel, Src: []Chunk{src}, Dst: []Chunk{dst}}
}

func unpack(src, dst Chunk) Op {
	return Op{Name: UnpackPackets, Src: []Chunk{src}, Dst: []Chunk{dst}}
}

// packetChain sends a chunk from rank 0 to 1 to 2, by packets through one half of scratch. Rank 2 tells rank 0 when all
// its threads have them, which proves that rank 1 has read its own.
func packetChain(told ...Op) *Plan {
	p := mesh("packet_chain", "hand_out", 3, 1, 1, 1, 1)
	p.Protocol = LL
	p.Postcondition = []Postcond{{Rank: 2, Index: 0, Size: 1, Of: []Contribution{{0, 0}}}}
	p.emit(0, 0, putPackets(Local(Input, 0, 1), p.at(0, 1, Scratch, 0, 1)), sync(Wait, 1))
	p.emit(1, 0, Op{Name: ReadPutPackets, ChannelType: MemoryChannel, Src: []Chunk{Local(Scratch, 0, 1)},
		Dst: []Chunk{p.at(1, 2, Scratch, 0, 1)}})
	p.emit(2, 0, unpack(Local(Scratch, 0, 1), Local(Output, 0, 1)))
	p.emit(2, 0, told...)
	return p
}

// relayed hands a chunk from rank 0 to 1 by packets. Rank 1 tells rank 2, which overwrites the chunk.
func relayed(told ...Op) *Plan {
	p := mesh("relayed", "hand_out", 3, 1, 3, 3, 1)
	p.Protocol, p.InPlace, p.DoubleScratch = LL, true, true
	p.Postcondition = []Postcond{{Rank: 1, Index: 1, Size: 1, Of: []Contribution{{0, 0}}}}
	p.emit(0, 0, sync(RlxSignal, 1), putPackets(Local(Input, 0, 1), p.at(0, 1, Scratch, 0, 1)),
		copyOp(Local(Input, 2, 1), Local(Output, 1, 1)), sync(Wait, 1)) // nothing proves the copy
	p.emit(1, 0, unpack(Local(Scratch, 0, 1), Local(Output, 1, 1)))
	p.emit(1, 0, told...)
	p.emit(2, 0, sync(RlxWait, 0), sync(Wait, 1), nop, put(Local(Input, 1, 1), p.at(2, 0, Input, 0, 1)), nop,
		sync(Signal, 0))
	return p
}

// answered: rank 0 gets a chunk of scratch from rank 1, and answers by a packet, which rank 1 unpacks over it.
func answered(between ...Op) *Plan {
	p := mesh("answered", "hand_out", 2, 1, 1, 1, 2)
	p.Protocol = LL
	p.Postcondition = []Postcond{{Rank: 0, Index: 0, Size: 1, Of: []Contribution{{1, 0}}}}
	p.emit(1, 0, copyOp(Local(Input, 0, 1), Local(Scratch, 0, 1)), nop, sync(Signal, 0),
		unpack(Local(Scratch, 1, 1), Local(Scratch, 0, 1)), nop, sync(Signal, 0))
	p.emit(0, 0, sync(Wait, 0), nop, Op{Name: Get, ChannelType: MemoryChannel, Src: []Chunk{p.at(0, 1, Scratch, 0, 1)},
		Dst: []Chunk{Local(Output, 0, 1)}})
	p.emit(0, 0, between...)
	p.emit(0, 0, putPackets(Local(Input, 0, 1), p.at(0, 1, Scratch, 1, 1)), sync(Wait, 0))
	return p
}

// halves: rank 0 sends a chunk as packets, which two thread blocks of rank 1 unpack, half each. When both have, block
// 0 overwrites the chunk.
func halves(meet Op) *Plan {
	p := mesh("halves", "hand_out", 2, 2, 1, 1, 1)
	p.Protocol, p.InPlace, p.DoubleScratch = LL, true, true
	p.emit(0, 0, sync(RlxSignal, 0), putPackets(Local(Input, 0, 1), p.at(0, 1, Scratch, 0, 1)), sync(Wait, 0))
	for b := range 2 {
		half := unpack(Local(Scratch, 0, 1), Local(Output, 0, 1))
		half.Slice = Slice{b, 2}
		p.emit(1, b, half, meet)
	}
	p.emit(1, 0, sync(RlxWait, 0), nop, put(Local(Output, 0, 1), p.at(1, 0, Input, 0, 1)), nop, sync(Signal, 0))
	p.Postcondition = []Postcond{{Rank: 1, Index: 0, Size: 1, Of: []Contribution{{0, 0}}}}
	return p
}

func TestProofsTravel(t *testing.T) {
	tell := func(peer int) Op { return sync(Signal, peer) }
	expect(t, "a chain, told by signal", packetChain(nop, tell(0)), "")
	expect(t, "a chain, told too early", packetChain(tell(0)), "data race")
	expect(t, "relayed", relayed(nop, tell(1)), "")
	expect(t, "relayed too early", relayed(tell(1), nop), "data race")
	expect(t, "answered", answered(nop), "")
	expect(t, "answered too early", answered(), "data race")
	expect(t, "halves", halves(Op{Name: Barrier, BarrierID: 0, NumThreadBlocks: 2}), "")
	expect(t, "halves that do not meet", halves(nop), "data race")
	p := relayed(nop, tell(1))
	ops := p.GPUs[0].ThreadBlocks[0].Ops
	ops[1], ops[2] = ops[2], ops[1]
	expect(t, "relayed, behind a copy", p, "")
	ops[1].Src[0] = Local(Input, 0, 1)
	expect(t, "what is copied is overwritten", p, "data race")
}

// acknowledged: both ranks copy a chunk to scratch, in slices of a block each, and get the other's. A packet of each
// slice says that it may be overwritten. Small messages have no second slice.
func acknowledged(blocks int, meets bool) *Plan {
	p := mesh("acknowledged", "hand_out", 2, blocks, 2, 2, 3)
	p.Protocol = LL
	for r := range 2 {
		for b := range blocks {
			slice := func(op Op) Op {
				op.Slice = Slice{b, blocks}
				return op
			}
			p.emit(r, b, slice(copyOp(Local(Input, 0, 1), Local(Scratch, 0, 1))), nop, sync(Signal, 0), sync(Wait, 0), nop)
			p.emit(r, b, slice(Op{Name: Get, ChannelType: MemoryChannel, Src: []Chunk{p.at(r, 1-r, Scratch, 0, 1)},
				Dst: []Chunk{Local(Output, 0, 1)}}))
			if meets {
				p.emit(r, b, nop)
			}
			p.emit(r, b, slice(putPackets(Local(Input, 0, 1), p.at(r, 1-r, Scratch, 1, 1))),
				slice(unpack(Local(Scratch, 1, 1), Local(Scratch, 2, 1))), nop,
				slice(copyOp(Local(Input, 1, 1), Local(Scratch, 0, 1))), nop, sync(Signal, 0), sync(Wait, 0))
		}
		p.Postcondition = append(p.Postcondition, Postcond{Rank: r, Index: 0, Size: 1, Of: []Contribution{{1 - r, 0}}})
	}
	return p
}

func TestSlicesThatMayBeEmpty(t *testing.T) {
	expect(t, "one block", acknowledged(1, true), "")
	expect(t, "two blocks", acknowledged(2, true), "")
	expect(t, "three blocks", acknowledged(3, true), "")
	expect(t, "too early", acknowledged(2, false), "data race")
	p := acknowledged(2, true) // block 0 overwrites all, told by its own packets only
	p.GPUs[0].ThreadBlocks[0].Ops[10].Slice = Slice{}
	expect(t, "the other's slice", p, "data race")
	p = acknowledged(2, true) // the packets of the second slice, which may be none, say that the first may be overwritten
	p.GPUs[0].ThreadBlocks[1].Ops[10].Slice = Slice{0, 2}
	p.GPUs[0].ThreadBlocks[0].Ops[10].Slice = Slice{1, 2}
	expect(t, "slices exchanged", p, "data race")
	p = acknowledged(2, true)
	p.DoubleScratch = true
	expect(t, "two halves of scratch", p, "")
}
