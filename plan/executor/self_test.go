package executor_test

import (
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/executor/planrun"
)

// packetsToItself is an all-gather over 2 ranks whose block 0 sends packets to the rank itself, and whose block 1 reads
// them. Block 2 serves the peer: from the input or, as between hosts, by a port channel that reads the packets that the
// rank has sent to itself.
func packetsToItself(t *testing.T, ports bool) *plan.Plan {
	t.Helper()
	p := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "packets_to_itself", Collective: dsl.AllGather(2, 1, false),
		Protocol: dsl.LL, UseDoubleScratchBuffer: true})
	slots := []*dsl.Buffer{p.Rank(0).Scratch(2), p.Rank(1).Scratch(2)}
	for r := range 2 {
		me, own := p.Rank(r), slots[r]
		me.CopyPackets(own.Chunk(r), me.Input().Chunk(0), dsl.TB(0))
		if ports {
			p.PortChannel(1-r, r).ReadPutPackets(slots[1-r].Chunk(r), own.Chunk(r), dsl.TB(2))
		} else {
			p.MemoryChannel(1-r, r).PutPackets(slots[1-r].Chunk(r), me.Input().Chunk(0), dsl.TB(2))
		}
		me.UnpackPackets(me.Output().Chunk(r), own.Chunk(r), dsl.TB(1))
		me.UnpackPackets(me.Output().Chunk(1-r), own.Chunk(1-r), dsl.TB(2))
	}
	out, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestHostPacketsToItself: if merged, the op that sends packets to its own rank would also be the op that waits for
// them.
func TestHostPacketsToItself(t *testing.T) {
	for _, ports := range []bool{false, true} {
		j := newJob(t, 2, openHost)
		xs := j.load(t, packetsToItself(t, ports))
		for _, m := range messages(xs[0], 2, 4, 16, 4096) {
			if err := j.run(bounded(t), xs, planrun.Case{Message: m, Times: 3, Seed: m}); err != nil {
				t.Fatalf("port channels %v, %d bytes: %v", ports, m, err)
			}
		}
	}
}
