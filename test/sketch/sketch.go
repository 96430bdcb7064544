// Package sketch helps tests to write plans by hand. Every rank runs the same number of thread blocks. Block b of
// a rank communicates with block b of every other rank over its own channels. Peer i of rank r is rank i, or i+1
// if i ≥ r.
package sketch

import "github.com/goccl/goccl/plan"

// Plan is a plan that a test writes.
type Plan struct{ *plan.Plan }

// Mesh is a plan skeleton in which every thread block has one memory channel and the three remote buffers of every
// peer.
func Mesh(name string, c plan.Collective, ranks, blocks, in, out, scratch int) *Plan {
	p := &Plan{&plan.Plan{SchemaVersion: plan.SchemaVersion, Name: name, Collective: c, Protocol: plan.Simple,
		ThreadsPerBlock: 256, Alignment: 16, MaxSize: 1 << 30}}
	for r := range ranks {
		g := plan.GPU{ID: r, InputChunks: in, OutputChunks: out, ScratchChunks: scratch}
		for _, t := range []plan.BufferType{plan.Input, plan.Output, plan.Scratch} {
			for peer := range ranks {
				if peer != r {
					g.RemoteBuffers = append(g.RemoteBuffers, plan.RemoteBuffer{Rank: peer, Type: t,
						Access: []plan.ChannelType{plan.MemoryChannel, plan.PortChannel}})
				}
			}
		}
		var refs []int
		for i := range g.RemoteBuffers {
			refs = append(refs, i)
		}
		memory, ports := plan.Channel{Type: plan.MemoryChannel}, plan.Channel{Type: plan.PortChannel}
		for b := range blocks {
			var ids []int
			for peer := range ranks {
				if peer != r {
					ids = append(ids, len(memory.ConnectedTo))
					memory.ConnectedTo = append(memory.ConnectedTo, peer)
				}
			}
			ports.ConnectedTo = memory.ConnectedTo
			g.ThreadBlocks = append(g.ThreadBlocks, plan.ThreadBlock{ID: b,
				Channels: []plan.ChannelRefs{{Type: plan.MemoryChannel, IDs: ids}, {Type: plan.PortChannel, IDs: ids}},
				RemoteBufferRefs: []plan.BufferRefs{{Access: plan.MemoryChannel, IDs: refs},
					{Access: plan.PortChannel, IDs: refs}}})
		}
		g.Channels = []plan.Channel{memory, ports}
		p.GPUs = append(p.GPUs, g)
	}
	return p
}

// peerIndex is rank peer's position among the peers of rank r.
func peerIndex(r, peer int) int {
	if peer > r {
		return peer - 1
	}
	return peer
}

// At returns size chunks from index of buffer t of rank peer, as a thread block of rank r in a mesh refers to them.
func (p *Plan) At(r, peer int, t plan.BufferType, index, size int) plan.Chunk {
	n := len(p.GPUs) - 1
	base := map[plan.BufferType]int{plan.Input: 0, plan.Output: n, plan.Scratch: 2 * n}[t]
	return plan.Remote(base+peerIndex(r, peer), index, size)
}

// Emit appends ops to the program of block b of rank r.
func (p *Plan) Emit(r, b int, ops ...plan.Op) {
	tb := &p.GPUs[r].ThreadBlocks[b]
	tb.Ops = append(tb.Ops, ops...)
}

// All returns 0 to n-1.
func All(n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	return ids
}

// Sync is a signal or wait over memory channels.
func Sync(name plan.OpName, ids ...int) plan.Op {
	return plan.Op{Name: name, ChannelType: plan.MemoryChannel, ChannelIDs: ids}
}

// Copy and Put move one operand.
func Copy(src, dst plan.Chunk) plan.Op {
	return plan.Op{Name: plan.Copy, Src: []plan.Chunk{src}, Dst: []plan.Chunk{dst}}
}

func Put(src, dst plan.Chunk) plan.Op {
	return plan.Op{Name: plan.Put, Src: []plan.Chunk{src}, Dst: []plan.Chunk{dst}, ChannelType: plan.MemoryChannel}
}

// PutPackets and Unpack move one operand as packets.
func PutPackets(src, dst plan.Chunk) plan.Op {
	return plan.Op{Name: plan.PutPackets, ChannelType: plan.MemoryChannel, Src: []plan.Chunk{src}, Dst: []plan.Chunk{dst}}
}

func Unpack(src, dst plan.Chunk) plan.Op {
	return plan.Op{Name: plan.UnpackPackets, Src: []plan.Chunk{src}, Dst: []plan.Chunk{dst}}
}

// Nop lets the threads of a block meet.
var Nop = plan.Op{Name: plan.Nop}

// AllGatherPut: every rank puts its chunks into every output; block b handles chunk b.
func AllGatherPut(ranks, blocks int) *Plan {
	p := Mesh("allgather_put", plan.AllGather, ranks, blocks, blocks, ranks*blocks, 0)
	for r := range ranks {
		for b := range blocks {
			peers := All(ranks - 1)
			p.Emit(r, b, Sync(plan.RlxSignal, peers...), Sync(plan.RlxWait, peers...), Nop)
			p.Emit(r, b, Copy(plan.Local(plan.Input, b, 1), plan.Local(plan.Output, r*blocks+b, 1)))
			for i := 1; i < ranks; i++ {
				peer := (r + i) % ranks
				p.Emit(r, b, Put(plan.Local(plan.Input, b, 1), p.At(r, peer, plan.Output, r*blocks+b, 1)))
			}
			p.Emit(r, b, Nop, Sync(plan.Signal, peers...), Sync(plan.Wait, peers...))
		}
	}
	return p
}

// AllReduceLL is a two-shot all-reduce with packets, in place or not. Rank r owns chunk r. Scratch chunk i < ranks
// holds what rank i sends for the owned chunk, and ranks+i what owner i has reduced.
func AllReduceLL(ranks int, inPlace, double bool) *Plan {
	p := Mesh("allreduce_ll", plan.AllReduce, ranks, 2, ranks, ranks, 2*ranks)
	p.Protocol, p.InPlace, p.DoubleScratch = plan.LL, inPlace, double
	for r := range ranks {
		reduce := plan.Op{Name: plan.ReduceSendPackets, ChannelType: plan.MemoryChannel, ReduceOp: plan.Sum,
			Src: []plan.Chunk{plan.Local(plan.Input, r, 1)}, Dst: []plan.Chunk{plan.Local(plan.Output, r, 1)}}
		for i := 1; i < ranks; i++ {
			peer := (r + i) % ranks
			p.Emit(r, 0, PutPackets(plan.Local(plan.Input, peer, 1), p.At(r, peer, plan.Scratch, r, 1)))
			reduce.Src = append(reduce.Src, plan.Local(plan.Scratch, peer, 1))
			reduce.Dst = append(reduce.Dst, p.At(r, peer, plan.Scratch, ranks+r, 1))
		}
		p.Emit(r, 0, reduce)
		for i := 1; i < ranks; i++ {
			peer := (r + i) % ranks
			p.Emit(r, 1, Unpack(plan.Local(plan.Scratch, ranks+peer, 1), plan.Local(plan.Output, peer, 1)))
		}
	}
	return p
}
