package interp_test

import (
	"errors"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/test/interp"
)

// flushed is a broadcast from rank 0 to rank 1 by a transfer from scratch over a port channel. Rank 0 flushes the
// channel and says over a memory channel (else: behind the transfer) that the data is there. again lets it fill the
// scratch again, for a second transfer, with or without a flush before.
func flushed(memory, again, flush bool) *plan.Plan {
	rank := func(peer int) plan.GPU {
		return plan.GPU{ID: 1 - peer, InputChunks: 2, OutputChunks: 2, ScratchChunks: 1,
			Channels: []plan.Channel{{Type: plan.MemoryChannel, ConnectedTo: []int{peer}},
				{Type: plan.PortChannel, ConnectedTo: []int{peer}}},
			RemoteBuffers: []plan.RemoteBuffer{{Rank: peer, Type: plan.Output, Access: []plan.ChannelType{plan.PortChannel}}},
			ThreadBlocks: []plan.ThreadBlock{{
				Channels: []plan.ChannelRefs{{Type: plan.MemoryChannel, IDs: []int{0}},
					{Type: plan.PortChannel, IDs: []int{0}}},
				RemoteBufferRefs: []plan.BufferRefs{{Access: plan.PortChannel, IDs: []int{0}}}}}}
	}
	on := func(name plan.OpName, t plan.ChannelType) plan.Op {
		return plan.Op{Name: name, ChannelType: t, ChannelIDs: []int{0}}
	}
	move := func(name plan.OpName, src, dst plan.Chunk) plan.Op {
		return plan.Op{Name: name, Src: []plan.Chunk{src}, Dst: []plan.Chunk{dst}}
	}
	nop := plan.Op{Name: plan.Nop}
	p := &plan.Plan{SchemaVersion: plan.SchemaVersion, Name: "flushed", Collective: "hand_out", Protocol: plan.Simple,
		ThreadsPerBlock: 32, Alignment: 4, MaxSize: 1 << 20, GPUs: []plan.GPU{rank(1), rank(0)}}
	signal := on(plan.Signal, plan.PortChannel)
	if memory {
		signal.ChannelType = plan.MemoryChannel
	}
	wait := signal
	wait.Name = plan.Wait
	ops := []plan.Op{on(plan.RlxWait, plan.MemoryChannel)}
	chunks := 1
	if again {
		chunks = 2
	}
	for k := range chunks {
		p.Postcondition = append(p.Postcondition, plan.Postcond{Rank: 1, Index: k, Size: 1,
			Of: []plan.Contribution{{Rank: 0, Index: k}}})
		put := move(plan.Put, plan.Local(plan.Scratch, 0, 1), plan.Remote(0, k, 1))
		put.ChannelType, put.ChannelIDs = plan.PortChannel, []int{0}
		ops = append(ops, move(plan.Copy, plan.Local(plan.Input, k, 1), plan.Local(plan.Scratch, 0, 1)), nop, put)
		if flush {
			ops = append(ops, on(plan.Flush, plan.PortChannel))
		}
		ops = append(ops, nop)
	}
	p.GPUs[0].ThreadBlocks[0].Ops = append(ops, signal)
	p.GPUs[1].ThreadBlocks[0].Ops = []plan.Op{on(plan.RlxSignal, plan.MemoryChannel), wait}
	return p
}

// TestFlushIsForTheSource: after a flush the source of a transfer may be reused. That the data has arrived is for a
// signal behind it to say.
func TestFlushIsForTheSource(t *testing.T) {
	for _, c := range []struct {
		memory, again, flush, right bool
	}{
		{memory: false, right: true},
		{memory: true, flush: true},
		{again: true, flush: true, right: true},
		{again: true},
	} {
		p := flushed(c.memory, c.again, c.flush)
		_, err := verify.Check(p, verify.Options{})
		var wrong *verify.Violation
		if (err == nil) != c.right || err != nil && !errors.As(err, &wrong) {
			t.Errorf("%+v: the verifier says %v", c, err)
		}
		if _, err := interp.Explore(p, interp.ExploreOptions{Sizes: []uint64{8, 8}, Threads: 2}); (err == nil) != c.right {
			t.Errorf("%+v: the interpreter says %v", c, err)
		}
	}
}
