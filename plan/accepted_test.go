package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// Plans that fail under some schedule, each because of one thing that is easily overlooked.

// TestBarrierIsForOneCount: one barrier of a rank states two thread blocks in one place and one in another.
func TestBarrierIsForOneCount(t *testing.T) {
	p := allGatherPut(2, 2)
	for b := range 2 {
		tb := &p.GPUs[1].ThreadBlocks[b]
		tb.Ops = append([]Op{{Name: Barrier, BarrierID: 3, NumThreadBlocks: 2}}, tb.Ops...)
	}
	if _, err := Check(p, VerifyOptions{}); err != nil {
		t.Fatalf("the plan is right so far: %v", err)
	}
	p.GPUs[1].ThreadBlocks[1].Ops[0].NumThreadBlocks = 1
	refused(t, p, ErrInvalid, "barrier 3 is for 1 thread blocks here and for 2 at rank 1, thread block 0, op 0")
}

// TestReadsOfOnePhase: rank 0 sends one chunk in three packets, one after the other. Rank 1 has received the first and
// the last and overwrites the chunk, while another thread of rank 0 may still read it for the second.
func TestReadsOfOnePhase(t *testing.T) {
	p := mesh("three_reads", "hand_out", 2, 2, 3, 3, 3)
	p.Protocol, p.InPlace, p.DoubleScratch = LL, true, true
	p.emit(0, 0, sync(RlxSignal, 0))
	p.emit(1, 0, sync(RlxWait, 0), nop)
	for k := range 3 {
		p.emit(0, 0, Op{Name: PutPackets, ChannelType: MemoryChannel, Src: []Chunk{Local(Input, 0, 1)},
			Dst: []Chunk{p.at(0, 1, Scratch, k, 1)}})
		p.emit(1, k&1, Op{Name: UnpackPackets, Src: []Chunk{Local(Scratch, k, 1)}, Dst: []Chunk{Local(Output, k, 1)}})
		p.Postcondition = append(p.Postcondition, Postcond{Rank: 1, Index: k, Size: 1, Of: []Contribution{{0, 0}}})
	}
	p.emit(0, 0, sync(Wait, 0))
	p.emit(1, 0, nop, put(Local(Output, 0, 1), p.at(1, 0, Input, 0, 1)), nop, sync(Signal, 0))
	races(t, p, "rank 0, thread block 0, op 2 (ppkt)")
}

// twoThreads: two threads push transfers into one port channel. The first is ordered after
// all accesses to the scratch of the previous launch; the second only after those to its own chunk, which may lie
// elsewhere in a launch of another size.
func twoThreads() *Plan {
	p := mesh("two_threads", "hand_out", 3, 2, 2, 2, 2)
	for _, r := range []int{0, 2} {
		p.GPUs[r].ThreadBlocks[0].Channels[0].IDs = []int{0, 1, 2, 3} // also those of block 1
	}
	p.Postcondition = []Postcond{{Rank: 1, Index: 0, Size: 1, Of: []Contribution{{0, 0}}},
		{Rank: 2, Index: 1, Size: 1, Of: []Contribution{{0, 1}}}}
	p.emit(0, 0, sync(RlxWait, 0, 1), sync(RlxWait, 3)) // thread 0: ranks 1 and 2; thread 1: rank 2
	p.emit(0, 0, Op{Name: Put, ChannelType: PortChannel, ChannelIDs: []int{0, 0},
		Src: []Chunk{Local(Input, 0, 1), Local(Input, 1, 1)},
		Dst: []Chunk{p.at(0, 1, Scratch, 0, 1), p.at(0, 1, Scratch, 1, 1)}}, nop,
		Op{Name: Signal, ChannelType: PortChannel, ChannelIDs: []int{0}})
	p.emit(1, 0, sync(RlxSignal, 0), Op{Name: Wait, ChannelType: PortChannel, ChannelIDs: []int{0}}, nop,
		copyOp(Local(Scratch, 0, 1), Local(Output, 0, 1)), sync(Signal, 1))
	p.emit(2, 0, sync(RlxSignal, 0), sync(RlxSignal, 2), sync(Wait, 1), nop,
		Op{Name: Get, ChannelType: MemoryChannel, Src: []Chunk{p.at(2, 1, Scratch, 1, 1)}, Dst: []Chunk{Local(Output, 1, 1)}})
	return p
}

// TestTransfersKnowWhatTheirThreadKnows: a transfer knows what its own thread knows, not what another does.
func TestTransfersKnowWhatTheirThreadKnows(t *testing.T) {
	p := twoThreads()
	races(t, p, "rank 0, thread block 0, op 2 (put)")

	ops := &p.GPUs[0].ThreadBlocks[0].Ops
	*ops = slices.Insert(*ops, 2, nop)
	if _, err := Check(p, VerifyOptions{}); err != nil {
		t.Errorf("all threads know what each knows, and still: %v", err)
	}
}

// TestPostconditionsAgree: a plan with two postconditions for one chunk is invalid.
func TestPostconditionsAgree(t *testing.T) {
	p := mesh("two_ends", "hand_out", 2, 1, 3, 3, 0)
	p.Postcondition = []Postcond{
		{Rank: 1, Index: 0, Size: 1, Of: []Contribution{{0, 0}}},
		{Rank: 0, Index: 1, Size: 2, Of: []Contribution{{0, 1}}},
		{Rank: 1, Index: 1, Size: 2, Of: []Contribution{{0, 1}}},
	}
	if err := p.Validate(&Capacity); err != nil {
		t.Fatal(err)
	}
	p.Postcondition = append(p.Postcondition, Postcond{Rank: 1, Index: 2, Size: 1, Of: []Contribution{{0, 0}}})
	refused(t, p, ErrInvalid, "chunk 2 of rank 1 has a postcondition already, in postcondition[2]")
}

func refused(t *testing.T, p *Plan, class error, detail string) {
	t.Helper()
	if _, err := Check(p, VerifyOptions{}); !errors.Is(err, class) || !strings.Contains(err.Error(), detail) {
		t.Errorf("%v, want %v that says %q", err, class, detail)
	}
}

func races(t *testing.T, p *Plan, with string) {
	t.Helper()
	var v *Violation
	if _, err := Check(p, VerifyOptions{}); !errors.As(err, &v) || v.Kind != DataRace ||
		!strings.Contains(err.Error(), with) {
		t.Errorf("%v, want a race with %s", err, with)
	}
}
