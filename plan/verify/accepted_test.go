package verify

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/test/sketch"
)

// Plans that fail under some schedule, each because of one thing that is easily overlooked.

// TestBarrierIsForOneCount: one barrier of a rank states two thread blocks in one place and one in another.
func TestBarrierIsForOneCount(t *testing.T) {
	p := sketch.AllGatherPut(2, 2)
	for b := range 2 {
		tb := &p.GPUs[1].ThreadBlocks[b]
		tb.Ops = append([]plan.Op{{Name: plan.Barrier, BarrierID: 3, NumThreadBlocks: 2}}, tb.Ops...)
	}
	if _, err := Check(p.Plan, Options{}); err != nil {
		t.Fatalf("the plan is right so far: %v", err)
	}
	p.GPUs[1].ThreadBlocks[1].Ops[0].NumThreadBlocks = 1
	refused(t, p, plan.ErrInvalid, "barrier 3 is for 1 thread blocks here and for 2 at rank 1, thread block 0, op 0")
}

// TestReadsOfOnePhase: rank 0 sends one chunk in three packets, one after the other. Rank 1 has received the first and
// the last and overwrites the chunk, while another thread of rank 0 may still read it for the second.
func TestReadsOfOnePhase(t *testing.T) {
	p := mesh("three_reads", "hand_out", 2, 2, 3, 3, 3)
	p.Protocol, p.InPlace, p.DoubleScratch = plan.LL, true, true
	p.Emit(0, 0, sync(plan.RlxSignal, 0))
	p.Emit(1, 0, sync(plan.RlxWait, 0), nop)
	for k := range 3 {
		p.Emit(0, 0, putPackets(in(0, 1), p.At(0, 1, plan.Scratch, k, 1)))
		p.Emit(1, k&1, unpack(scratch(k, 1), out(k, 1)))
		p.Postcondition = append(p.Postcondition, holds(1, k, 0, 0))
	}
	p.Emit(0, 0, sync(plan.Wait, 0))
	p.Emit(1, 0, nop, put(out(0, 1), p.At(1, 0, plan.Input, 0, 1)), nop, sync(plan.Signal, 0))
	races(t, p, "rank 0, thread block 0, op 2 (ppkt)")
}

// twoThreads: two threads push transfers into one port channel. The first is ordered after
// all accesses to the scratch of the previous launch; the second only after those to its own chunk, which may lie
// elsewhere in a launch of another size.
func twoThreads() *sketch.Plan {
	p := mesh("two_threads", "hand_out", 3, 2, 2, 2, 2)
	for _, r := range []int{0, 2} {
		p.GPUs[r].ThreadBlocks[0].Channels[0].IDs = []int{0, 1, 2, 3} // also the channels of block 1
	}
	p.Postcondition = []plan.Postcond{holds(1, 0, 0, 0),
		holds(2, 1, 0, 1)}
	p.Emit(0, 0, sync(plan.RlxWait, 0, 1), sync(plan.RlxWait, 3)) // thread 0: ranks 1 and 2; thread 1: rank 2
	p.Emit(0, 0, plan.Op{Name: plan.Put, ChannelType: plan.PortChannel, ChannelIDs: []int{0, 0},
		Src: []plan.Chunk{in(0, 1), in(1, 1)},
		Dst: []plan.Chunk{p.At(0, 1, plan.Scratch, 0, 1), p.At(0, 1, plan.Scratch, 1, 1)}}, nop,
		plan.Op{Name: plan.Signal, ChannelType: plan.PortChannel, ChannelIDs: []int{0}})
	p.Emit(1, 0, sync(plan.RlxSignal, 0), plan.Op{Name: plan.Wait, ChannelType: plan.PortChannel,
		ChannelIDs: []int{0}}, nop,
		copyOp(scratch(0, 1), out(0, 1)), sync(plan.Signal, 1))
	p.Emit(2, 0, sync(plan.RlxSignal, 0), sync(plan.RlxSignal, 2), sync(plan.Wait, 1), nop,
		get(p.At(2, 1, plan.Scratch, 1, 1), out(1, 1)))
	return p
}

// TestTransfersKnowWhatTheirThreadKnows: a transfer knows what its own thread knows, not what another does.
func TestTransfersKnowWhatTheirThreadKnows(t *testing.T) {
	p := twoThreads()
	races(t, p, "rank 0, thread block 0, op 2 (put)")

	ops := &p.GPUs[0].ThreadBlocks[0].Ops
	*ops = slices.Insert(*ops, 2, nop)
	if _, err := Check(p.Plan, Options{}); err != nil {
		t.Errorf("all threads know what each knows, and still: %v", err)
	}
}

// TestPostconditionsAgree: a plan with two postconditions for one chunk is invalid.
func TestPostconditionsAgree(t *testing.T) {
	p := mesh("two_ends", "hand_out", 2, 1, 3, 3, 0)
	p.Postcondition = []plan.Postcond{
		holds(1, 0, 0, 0),
		{Rank: 0, Index: 1, Size: 2, Of: []plan.Contribution{{Rank: 0, Index: 1}}},
		{Rank: 1, Index: 1, Size: 2, Of: []plan.Contribution{{Rank: 0, Index: 1}}},
	}
	if err := p.Validate(&plan.Capacity); err != nil {
		t.Fatal(err)
	}
	p.Postcondition = append(p.Postcondition, holds(1, 2, 0, 0))
	refused(t, p, plan.ErrInvalid, "chunk 2 of rank 1 has a postcondition already, in postcondition[2]")
}

func refused(t *testing.T, p *sketch.Plan, class error, detail string) {
	t.Helper()
	if _, err := Check(p.Plan, Options{}); !errors.Is(err, class) || !strings.Contains(err.Error(), detail) {
		t.Errorf("%v, want %v that says %q", err, class, detail)
	}
}

func races(t *testing.T, p *sketch.Plan, with string) {
	t.Helper()
	var v *Violation
	if _, err := Check(p.Plan, Options{}); !errors.As(err, &v) || v.Kind != DataRace ||
		!strings.Contains(err.Error(), with) {
		t.Errorf("%v, want a race with %s", err, with)
	}
}
