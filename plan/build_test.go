package plan

// Hand-written plans for the tests. Every rank runs the same number of thread blocks; block b of a rank communicates
// with block b of every other rank over its own channels, and peer i of rank r is rank i, or i+1 from r on.

// mesh is a plan skeleton in which every thread block has one memory channel and the three remote buffers of every
// peer.
func mesh(name string, c Collective, ranks, blocks, in, out, scratch int) *Plan {
	p := &Plan{SchemaVersion: SchemaVersion, Name: name, Collective: c, Protocol: Simple, ThreadsPerBlock: 256,
		Alignment: 16, MaxSize: 1 << 30}
	for r := range ranks {
		g := GPU{ID: r, InputChunks: in, OutputChunks: out, ScratchChunks: scratch}
		for _, t := range []BufferType{Input, Output, Scratch} {
			for peer := range ranks {
				if peer != r {
					g.RemoteBuffers = append(g.RemoteBuffers, RemoteBuffer{peer, t, []ChannelType{MemoryChannel, PortChannel}})
				}
			}
		}
		var refs []int
		for i := range g.RemoteBuffers {
			refs = append(refs, i)
		}
		memory, ports := Channel{Type: MemoryChannel}, Channel{Type: PortChannel}
		for b := range blocks {
			var ids []int
			for peer := range ranks {
				if peer != r {
					ids = append(ids, len(memory.ConnectedTo))
					memory.ConnectedTo = append(memory.ConnectedTo, peer)
				}
			}
			ports.ConnectedTo = memory.ConnectedTo
			g.ThreadBlocks = append(g.ThreadBlocks, ThreadBlock{ID: b,
				Channels:         []ChannelRefs{{MemoryChannel, ids}, {PortChannel, ids}},
				RemoteBufferRefs: []BufferRefs{{MemoryChannel, refs}, {PortChannel, refs}}})
		}
		g.Channels = []Channel{memory, ports}
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

// at returns size chunks from index of buffer t of rank peer, as a thread block of rank r in a mesh refers to them.
func (p *Plan) at(r, peer int, t BufferType, index, size int) Chunk {
	n := len(p.GPUs) - 1
	base := map[BufferType]int{Input: 0, Output: n, Scratch: 2 * n}[t]
	return Remote(base+peerIndex(r, peer), index, size)
}

func (p *Plan) emit(r, b int, ops ...Op) {
	tb := &p.GPUs[r].ThreadBlocks[b]
	tb.Ops = append(tb.Ops, ops...)
}

func all(n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	return ids
}

func sync(name OpName, ids ...int) Op {
	return Op{Name: name, ChannelType: MemoryChannel, ChannelIDs: ids}
}

func copyOp(src, dst Chunk) Op {
	return Op{Name: Copy, Src: []Chunk{src}, Dst: []Chunk{dst}}
}

func put(src, dst Chunk) Op {
	return Op{Name: Put, Src: []Chunk{src}, Dst: []Chunk{dst}, ChannelType: MemoryChannel}
}

var nop = Op{Name: Nop}

// allGatherPut: every rank puts its chunks into every output; block b handles chunk b.
func allGatherPut(ranks, blocks int) *Plan {
	p := mesh("allgather_put", AllGather, ranks, blocks, blocks, ranks*blocks, 0)
	for r := range ranks {
		for b := range blocks {
			peers := all(ranks - 1)
			p.emit(r, b, sync(RlxSignal, peers...), sync(RlxWait, peers...), nop)
			p.emit(r, b, copyOp(Local(Input, b, 1), Local(Output, r*blocks+b, 1)))
			for i := 1; i < ranks; i++ {
				peer := (r + i) % ranks
				p.emit(r, b, put(Local(Input, b, 1), p.at(r, peer, Output, r*blocks+b, 1)))
			}
			p.emit(r, b, nop, sync(Signal, peers...), sync(Wait, peers...))
		}
	}
	return p
}

// allReduceLL is a two-shot all-reduce with packets, in place or not. Rank r owns chunk r. Scratch chunk i < ranks
// holds what rank i sends for the owned chunk, and ranks+i what owner i has reduced.
func allReduceLL(ranks int, inPlace, double bool) *Plan {
	p := mesh("allreduce_ll", AllReduce, ranks, 2, ranks, ranks, 2*ranks)
	p.Protocol, p.InPlace, p.DoubleScratch = LL, inPlace, double
	for r := range ranks {
		reduce := Op{Name: ReduceSendPackets, ChannelType: MemoryChannel, ReduceOp: Sum, Src: []Chunk{Local(Input, r, 1)},
			Dst: []Chunk{Local(Output, r, 1)}}
		for i := 1; i < ranks; i++ {
			peer := (r + i) % ranks
			p.emit(r, 0, Op{Name: PutPackets, ChannelType: MemoryChannel, Src: []Chunk{Local(Input, peer, 1)},
				Dst: []Chunk{p.at(r, peer, Scratch, r, 1)}})
			reduce.Src = append(reduce.Src, Local(Scratch, peer, 1))
			reduce.Dst = append(reduce.Dst, p.at(r, peer, Scratch, ranks+r, 1))
		}
		p.emit(r, 0, reduce)
		for i := 1; i < ranks; i++ {
			peer := (r + i) % ranks
			p.emit(r, 1, Op{Name: UnpackPackets, Src: []Chunk{Local(Scratch, ranks+peer, 1)},
				Dst: []Chunk{Local(Output, peer, 1)}})
		}
	}
	return p
}
