package dsl

// allGatherPut stores every rank's input to every other, all on block tb.
func allGatherPut(ranks, tb int) *CollectiveProgram {
	p := NewCollectiveProgram(AlgoSpec{Name: "allgather_put", Collective: AllGather(ranks, 1, false)})
	for r := range ranks {
		p.Rank(r).Copy(p.Rank(r).Output().Chunk(r), p.Rank(r).Input().Chunk(0), TB(tb))
	}
	for r := range ranks {
		for q := range ranks {
			if q == r {
				continue
			}
			c := p.MemoryChannel(q, r)
			c.Signal(TB(tb), Relaxed())
			c.Wait(TB(tb), Relaxed())
			c.Put(p.Rank(q).Output().Chunk(r), p.Rank(r).Input().Chunk(0), TB(tb))
			c.Signal(TB(tb))
			c.Wait(TB(tb))
		}
	}
	return p
}

// twoShotPackets is a two-shot all-reduce with packets on one block.
func twoShotPackets(ranks, instances int, policy ReplicationPolicy) *CollectiveProgram {
	p := NewCollectiveProgram(AlgoSpec{
		Name: "allreduce_ll", Collective: AllReduce(ranks, 1, true), Protocol: LL, Instances: instances,
		ReplicationPolicy:      policy,
		UseDoubleScratchBuffer: true, MaxMessageSize: 1 << 20,
	})
	parts, sums := make([]*Buffer, ranks), make([]*Buffer, ranks)
	for r := range ranks {
		parts[r], sums[r] = p.Rank(r).Scratch(ranks), p.Rank(r).Scratch(ranks)
	}
	for r := range ranks {
		rank, in := p.Rank(r), p.Rank(r).Input()
		channels := map[int]*MemoryChannel{}
		var packets []Chunk
		for q := range ranks {
			if q != r {
				channels[q] = p.MemoryChannel(q, r)
				channels[q].PutPackets(parts[q].Chunk(r), in.Chunk(q), TB(0))
				packets = append(packets, parts[r].Chunk(q))
			}
		}
		rank.Reduce(in.Chunk(r), packets, Packet(), TB(0))
		for q := range ranks {
			if q != r {
				channels[q].PutPackets(sums[q].Chunk(r), in.Chunk(r), TB(0))
			}
		}
		for q := range ranks {
			if q != r {
				rank.UnpackPackets(in.Chunk(q), sums[r].Chunk(q), TB(0))
			}
		}
	}
	return p
}

// portExchange is a user-defined collective over port channels: two ranks swap their inputs.
func portExchange() *CollectiveProgram {
	p := NewCollectiveProgram(AlgoSpec{Name: "exchange_port", RanksPerNode: 1, Collective: Custom("swap", 2, 1, 1, false,
		func(rank, chunk int) []Contribution { return []Contribution{{1 - rank, chunk}} })})
	for r := range 2 {
		q := 1 - r
		c := p.PortChannel(q, r)
		c.Signal(TB(0))
		c.Wait(TB(0))
		c.PutWithSignalAndFlush(p.Rank(q).Output().Chunk(0), p.Rank(r).Input().Chunk(0), TB(0))
		c.Wait(TB(0))
	}
	return p
}

// pipelined overlaps, on two blocks and slice by slice, a copy into scratch with the store of the slice to the peer.
func pipelined() *CollectiveProgram {
	p := NewCollectiveProgram(AlgoSpec{Name: "pipeline", Collective: SendRecv(2, 1, false), MaxMessageSize: 1 << 30})
	for r := range 2 {
		q := 1 - r
		rank := p.Rank(r)
		staged, free := rank.Scratch(1), p.Semaphore(r, 0)
		c := p.MemoryChannel(q, r)
		c.Signal(TB(1), Relaxed())
		c.Wait(TB(1), Relaxed())
		p.Loop(1<<16, 1, func() {
			rank.Copy(staged.Chunk(0), rank.Input().Chunk(0), TB(0))
			free.Release(TB(0))
			free.Acquire(TB(1))
			c.Put(p.Rank(q).Output().Chunk(0), staged.Chunk(0), TB(1))
			c.Signal(TB(1))
			c.Wait(TB(1))
		})
		// The copies of the next launch must not overtake the stores of this one. The end of the kernel ensures it.
	}
	return p
}
