package dsl

import (
	"errors"
	"testing"

	"github.com/goccl/goccl/plan"
)

// pair is a program of two ranks with a channel each way; rank 1 does the same as rank 0.
func pair(t *testing.T, change func(*AlgoSpec),
	write func(p *CollectiveProgram, r, q int, c *MemoryChannel)) *plan.Plan {
	t.Helper()
	s := AlgoSpec{Name: "pair", Collective: AllReduce(2, 4, false)}
	if change != nil {
		change(&s)
	}
	p := NewCollectiveProgram(s)
	p.Rank(0).Scratch(16)
	p.Rank(1).Scratch(16)
	for r := range 2 {
		write(p, r, 1-r, p.MemoryChannel(1-r, r))
	}
	return compile(t, p)
}

func scratch(r, i int) Chunk { return Chunk{Rank: r, Buffer: Scratch, Index: i, Size: 1} }

func TestFusion(t *testing.T) {
	for _, c := range []struct {
		name, want string
		write      func(p *CollectiveProgram, r, q int, c *MemoryChannel)
	}{
		{"puts", "put", func(p *CollectiveProgram, r, q int, c *MemoryChannel) {
			for i := range 8 {
				c.Put(scratch(q, i), p.Rank(r).Input().Chunk(i), TB(0))
			}
		}},
		{"a ninth put", "put put", func(p *CollectiveProgram, r, q int, c *MemoryChannel) {
			for i := range 9 {
				c.Put(scratch(q, i), p.Rank(r).Input().Chunk(i%8), TB(0))
			}
		}},
		{"puts to one place", "put nop put", func(p *CollectiveProgram, r, q int, c *MemoryChannel) {
			c.Put(scratch(q, 0), p.Rank(r).Input().Chunk(0), TB(0))
			c.Put(scratch(q, 0), p.Rank(r).Input().Chunk(1), TB(0))
		}},
		{"gets", "get", func(p *CollectiveProgram, r, q int, c *MemoryChannel) {
			c.Get(scratch(r, 0), p.Rank(q).Input().Chunk(0), TB(0))
			c.Get(scratch(r, 1), p.Rank(q).Input().Chunk(1), TB(0))
		}},
		{"reduce and store", "res", func(p *CollectiveProgram, r, q int, c *MemoryChannel) {
			p.Rank(r).Reduce(p.Rank(r).Input().Chunk(0), []Chunk{p.Rank(r).Input().Chunk(1)}, Into(scratch(r, 0)), TB(0))
			c.Put(scratch(q, 1), scratch(r, 0), TB(0))
		}},
		{"reduce, store something else", "re put", func(p *CollectiveProgram, r, q int, c *MemoryChannel) {
			p.Rank(r).Reduce(p.Rank(r).Input().Chunk(0), []Chunk{p.Rank(r).Input().Chunk(1)}, Into(scratch(r, 0)), TB(0))
			c.Put(scratch(q, 1), p.Rank(r).Input().Chunk(0), TB(0))
		}},
		{"accumulate", "re", func(p *CollectiveProgram, r, _ int, _ *MemoryChannel) {
			in := p.Rank(r).Input()
			p.Rank(r).Reduce(in.Chunk(0), []Chunk{in.Chunk(1)}, Into(scratch(r, 0)), TB(0))
			p.Rank(r).Reduce(scratch(r, 0), []Chunk{in.Chunk(2)}, TB(0))
		}},
		{"double the result", "re nop re", func(p *CollectiveProgram, r, _ int, _ *MemoryChannel) {
			in := p.Rank(r).Input()
			p.Rank(r).Reduce(in.Chunk(0), []Chunk{in.Chunk(1)}, Into(scratch(r, 0)), TB(0))
			p.Rank(r).Reduce(scratch(r, 0), []Chunk{scratch(r, 0)}, TB(0))
		}},
		{"different operators", "re nop re", func(p *CollectiveProgram, r, _ int, _ *MemoryChannel) {
			in := p.Rank(r).Input()
			p.Rank(r).Reduce(in.Chunk(0), []Chunk{in.Chunk(1)}, Into(scratch(r, 0)), TB(0), With(Sum))
			p.Rank(r).Reduce(scratch(r, 0), []Chunk{in.Chunk(2)}, TB(0), With(Max))
		}},
		{"load, reduce and store", "rres", func(p *CollectiveProgram, r, q int, c *MemoryChannel) {
			c.Reduce(p.Rank(r).Input().Chunk(0), []Chunk{p.Rank(q).Input().Chunk(0)}, Into(scratch(r, 0)), TB(0))
			c.Put(scratch(q, 1), scratch(r, 0), TB(0))
		}},
		{"packets: reduce, copy and send", "recspkt", func(p *CollectiveProgram, r, q int, c *MemoryChannel) {
			p.Rank(r).Reduce(p.Rank(r).Input().Chunk(0), []Chunk{scratch(r, 0)}, Packet(), Into(p.Rank(r).Output().Chunk(0)),
				TB(0))
			p.Rank(r).CopyPackets(scratch(r, 1), p.Rank(r).Output().Chunk(0), TB(0))
			c.PutPackets(scratch(q, 2), p.Rank(r).Output().Chunk(0), TB(0))
			c.ReadPutPackets(scratch(q, 3), scratch(r, 1), TB(0))
		}},
		{"forward packets", "rppkt", func(_ *CollectiveProgram, r, q int, c *MemoryChannel) {
			c.ReadPutPackets(scratch(q, 3), scratch(r, 1), TB(0))
			c.ReadPutPackets(scratch(q, 4), scratch(r, 1), TB(0))
		}},
		{"slices stay apart", "put put", func(p *CollectiveProgram, r, q int, c *MemoryChannel) {
			c.Put(scratch(q, 0), p.Rank(r).Input().Chunk(0), Group(ThreadBlockGroup{0, 1}))
			c.Put(scratch(q, 1), p.Rank(r).Input().Chunk(1), TB(0))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := pair(t, nil, c.write)
			if got := opNames(out.GPUs[0].ThreadBlocks[0].Ops); got != c.want {
				t.Errorf("ops %s, want %s", got, c.want)
			}
		})
	}
}

func TestSwitchReduceKeepsAResultThatSomebodyReads(t *testing.T) {
	build := func(also bool) string {
		p := NewCollectiveProgram(AlgoSpec{Name: "g", Collective: AllReduce(2, 1, false)})
		in, out := p.SwitchChannel([]int{0, 1}, Input), p.SwitchChannel([]int{0, 1}, Output)
		for r := range 2 {
			s := p.Rank(r).Scratch(2)
			in.AtRank(r).Reduce(r, 1, s.Chunk(0), TB(0))
			out.AtRank(r).Broadcast(s.Chunk(0), r, 1, TB(0))
			if also {
				p.Rank(r).Copy(s.Chunk(1), s.Chunk(0), TB(0))
			}
		}
		return opNames(compile(t, p).GPUs[0].ThreadBlocks[0].Ops)
	}
	if got := build(false); got != "glres" {
		t.Errorf("ops %s, want glres", got)
	}
	if got := build(true); got != "glre nop gstore copy" {
		t.Errorf("ops %s: the result in scratch is read later, so it must be stored", got)
	}
}

func TestSwitchReduceAlone(t *testing.T) {
	p := NewCollectiveProgram(AlgoSpec{Name: "glre", Collective: AllReduce(2, 1, false)})
	in := p.SwitchChannel([]int{0, 1}, Input)
	in.AtRank(0).Reduce(1, 1, p.Rank(0).Output().Chunk(0), TB(0))
	op := compile(t, p).GPUs[0].ThreadBlocks[0].Ops[0]
	if op.Name != plan.SwitchReduce || op.Src[0].Kind != plan.SwitchChunk || op.Src[0].Index != 1 ||
		op.Dst[0] != plan.Local(plan.Output, 0, 1) {
		t.Errorf("op %+v", op)
	}
}

func TestSyncTypes(t *testing.T) {
	ops := func(noAuto bool, opts ...Option) string {
		return opNames(pair(t, func(s *AlgoSpec) { s.NoAutoSync, s.NoFusion = noAuto, true },
			func(p *CollectiveProgram, r, _ int, c *MemoryChannel) {
				rank := p.Rank(r)
				rank.Copy(scratch(r, 0), rank.Input().Chunk(0), TB(0))
				c.Signal(append(opts, TB(0))...)
				c.Wait(append(opts, TB(0))...)
				rank.Copy(scratch(r, 1), rank.Input().Chunk(1), TB(0))
			}).GPUs[0].ThreadBlocks[0].Ops)
	}
	for _, c := range []struct{ got, want string }{
		{ops(false), "copy nop signal wait nop copy"},
		{ops(false, Sync(SyncNone)), "copy nop signal wait nop copy"},
		{ops(true), "copy nop signal nop wait nop copy"},
		{ops(true, Sync(SyncNone)), "copy signal wait copy"},
		{ops(true, Sync(SyncAfter)), "copy signal nop wait nop copy"},
	} {
		if c.got != c.want {
			t.Errorf("ops %s, want %s", c.got, c.want)
		}
	}
}

func TestPipelineMeetsItsNextIteration(t *testing.T) {
	out := pair(t, nil, func(p *CollectiveProgram, r, q int, c *MemoryChannel) {
		p.Loop(1<<12, 1, func() {
			c.Signal(TB(0))
			c.Wait(TB(0))
			c.Put(scratch(q, 0), p.Rank(r).Input().Chunk(0), TB(0))
		})
	})
	want := "pipeline(nop signal wait nop put)" // the put of one iteration comes before the signal of the next
	if got := opNames(out.GPUs[0].ThreadBlocks[0].Ops); got != want {
		t.Errorf("ops %s, want %s", got, want)
	}
}

func TestAssignment(t *testing.T) {
	if n := len(proven(t, allGatherPut(4, Auto)).GPUs[0].ThreadBlocks); n != 4 {
		t.Errorf("%d blocks, want one for each independent peer and one for the copy", n)
	}

	// Data on one channel, signals on another: the author's order must be preserved.
	p := NewCollectiveProgram(AlgoSpec{Name: "two channels", Collective: AllGather(2, 1, false)})
	for r := range 2 {
		q := 1 - r
		data, sync := p.MemoryChannel(q, r), p.MemoryChannel(q, r)
		p.Rank(r).Copy(p.Rank(r).Output().Chunk(r), p.Rank(r).Input().Chunk(0))
		sync.Signal(Relaxed())
		sync.Wait(Relaxed())
		s := p.Rank(r).Scratch(1)
		data.Put(Chunk{Rank: q, Buffer: Scratch, Index: 0, Size: 1}, p.Rank(r).Input().Chunk(0))
		sync.Signal()
		sync.Wait()
		p.Rank(r).Copy(p.Rank(r).Output().Chunk(q), s.Chunk(0))
	}
	if err := p.Err(); err == nil {
		t.Fatal("a put into scratch that does not exist yet was accepted")
	}

	p = NewCollectiveProgram(AlgoSpec{Name: "two channels", Collective: AllGather(2, 1, false)})
	for r := range 2 {
		p.Rank(r).Scratch(1)
	}
	for r := range 2 {
		q := 1 - r
		data, sync := p.MemoryChannel(q, r), p.MemoryChannel(q, r)
		p.Rank(r).Copy(p.Rank(r).Output().Chunk(r), p.Rank(r).Input().Chunk(0))
		sync.Signal(Relaxed())
		sync.Wait(Relaxed())
		data.Put(scratch(q, 0), p.Rank(r).Input().Chunk(0))
		sync.Signal()
		sync.Wait()
		p.Rank(r).Copy(p.Rank(r).Output().Chunk(q), scratch(r, 0))
	}
	proven(t, p)
}

func TestAssignmentFoldsOntoFewBlocks(t *testing.T) {
	p := NewCollectiveProgram(AlgoSpec{Name: "fold", Collective: AllGather(1, 8, false), MaxThreadBlocks: 3})
	for i := range 8 {
		p.Rank(0).Copy(p.Rank(0).Output().Chunk(i), p.Rank(0).Input().Chunk(i))
	}
	if n := len(compile(t, p).GPUs[0].ThreadBlocks); n != 3 {
		t.Errorf("%d blocks, want 3", n)
	}
}

func TestAssignmentRefusesTwoMasters(t *testing.T) {
	p := NewCollectiveProgram(AlgoSpec{Name: "masters", Collective: AllGather(1, 2, false)})
	rank := p.Rank(0)
	rank.Copy(rank.Output().Chunk(0), rank.Input().Chunk(0), TB(0))
	rank.Copy(rank.Output().Chunk(1), rank.Input().Chunk(1), TB(1))
	rank.Reduce(rank.Output().Chunk(0), []Chunk{rank.Output().Chunk(1)})
	if _, err := p.Compile(); !errors.Is(err, ErrAssignment) {
		t.Errorf("error %v, want %v", err, ErrAssignment)
	}
}

func TestReplicationPolicies(t *testing.T) {
	for _, policy := range []ReplicationPolicy{Interleaved, None} {
		out := proven(t, twoShotPackets(3, 4, policy))
		g := out.GPUs[0]
		wantChunks := 12
		if policy == None {
			wantChunks = 3
		}
		if g.InputChunks != wantChunks || len(g.ThreadBlocks) != 4 {
			t.Errorf("%s: %d input chunks and %d blocks, want %d and 4", policy, g.InputChunks, len(g.ThreadBlocks), wantChunks)
		}
	}
	p := portExchange()
	p.spec.Instances, p.spec.ReplicationPolicy = 2, None
	if _, err := p.Compile(); !errors.Is(err, ErrUsage) {
		t.Errorf("error %v: a port channel cannot be shared", err)
	}
	p.spec.ReplicationPolicy = Interleaved
	proven(t, p)
}

func TestPortableLimits(t *testing.T) {
	build := func(portable bool) error {
		p := NewCollectiveProgram(AlgoSpec{Name: "long", Collective: AllGather(1, 80, false), Portable: portable,
			NoFusion: true})
		for i := range 80 {
			p.Rank(0).Copy(p.Rank(0).Output().Chunk(i), p.Rank(0).Input().Chunk(i), TB(0))
		}
		_, err := p.Compile()
		return err
	}
	if err := build(false); err != nil {
		t.Error(err)
	}
	if err := build(true); !errors.Is(err, ErrLimit) {
		t.Errorf("error %v, want %v", err, ErrLimit)
	}
}
