package dsl

import (
	"cmp"
	"maps"
	"slices"

	"github.com/goccl/goccl/plan"
)

// limits returns the limits of the executors that the plan is for.
func (p *CollectiveProgram) limits() *plan.Limits {
	if p.spec.Portable {
		return &plan.Portable
	}
	return &plan.Capacity
}

// lower writes the plan's tables. Ids inside a block follow the order of first use, ids of a rank follow the order of
// creation, and remote buffers are sorted by (rank, buffer), so that equal programs give equal plans.
func (p *CollectiveProgram) lower() *plan.Plan {
	p.checkReplication()
	s := &p.spec
	out := &plan.Plan{
		SchemaVersion: plan.SchemaVersion, Name: s.Name, Collective: plan.Collective(s.Collective.Name), Protocol: s.Protocol,
		InPlace:        s.InPlace,
		ReuseResources: s.ReuseResources, ThreadsPerBlock: s.ThreadsPerBlock, DoubleScratch: s.UseDoubleScratchBuffer,
		Alignment: int64(s.BufferAlignment), MinSize: s.MinMessageSize, MaxSize: s.MaxMessageSize, Root: s.Collective.Root,
		Postcondition: p.postcondition(),
	}
	whole := instance{n: s.Instances, policy: s.ReplicationPolicy}
	p.origins = &origins{Origins: plan.Origins{Parts: whole.chunks(1)}, known: map[Position]int32{{}: -1}}
	out.Origins = &p.origins.Origins
	for id, r := range p.ranks {
		p.origins.Ops = append(p.origins.Ops, nil)
		out.GPUs = append(out.GPUs, p.lowerRank(id, r))
	}
	return out
}

func (p *CollectiveProgram) lowerRank(id int, r *rankState) plan.GPU {
	n := p.spec.Instances
	whole := instance{n: n, policy: p.spec.ReplicationPolicy}
	g := plan.GPU{
		ID: id, InputChunks: whole.chunks(p.spec.Collective.InputChunks),
		OutputChunks:  whole.chunks(p.spec.Collective.OutputChunks),
		ScratchChunks: whole.chunks(r.scratch),
	}
	for _, kind := range []ChannelType{plan.MemoryChannel, plan.PortChannel} {
		if list := r.channels[kind]; len(list) > 0 {
			c := plan.Channel{Type: kind}
			for _, ch := range list {
				for range n {
					c.ConnectedTo = append(c.ConnectedTo, ch.dst)
				}
			}
			g.Channels = append(g.Channels, c)
		}
	}
	for _, sw := range r.switches {
		for range n {
			g.Channels = append(g.Channels, plan.Channel{Type: plan.SwitchChannel, BufferType: sw.buffer,
				RankGroups: []plan.RankGroup{{Ranks: append([]int(nil), sw.ranks...)}}})
		}
	}
	if len(r.hooks) > 0 {
		g.Channels = append(g.Channels, plan.Channel{Type: plan.HookChannel, Hooks: r.lowerHooks(n,
			p.spec.ReplicationPolicy)})
	}
	for _, sem := range r.semaphores {
		for range n {
			g.Semaphores = append(g.Semaphores, plan.Semaphore{InitValue: sem.initial})
		}
	}
	if most := p.limits().Barriers; len(r.barriers)*n > most {
		p.fail(p.start, ErrLimit, "use fewer sets of blocks or fewer instances", "rank %d needs %d barriers, at most %d", id,
			len(r.barriers)*n, most)
	}
	if most := p.limits().Semaphores; len(r.semaphores)*n > most {
		p.fail(p.start, ErrLimit, "use fewer instances", "rank %d needs %d semaphores, at most %d", id, len(r.semaphores)*n,
			most)
	}
	blocks := r.blocks()
	for i, ops := range blocks {
		blocks[i] = p.schedule(ops)
	}
	remotes := p.remoteBuffers(&g, blocks)
	for tb, ops := range blocks {
		for i := range n {
			l := blockLowering{p: p, remotes: remotes, inst: instance{i: i, n: n, policy: p.spec.ReplicationPolicy}}
			l.tb.ID = tb*n + i
			p.origins.Ops[id] = append(p.origins.Ops[id], l.run(ops))
			g.ThreadBlocks = append(g.ThreadBlocks, l.tb)
		}
	}
	return g
}

// remoteBuffers fills the rank's table and returns the index of each entry.
func (p *CollectiveProgram) remoteBuffers(g *plan.GPU, blocks [][]*operation) map[bufferKey]int {
	access := map[bufferKey]map[ChannelType]bool{}
	for _, ops := range blocks {
		for _, o := range ops {
			for x := range o.operands() {
				if x.channel == nil {
					continue
				}
				k := bufferKey{x.chunk.Rank, x.chunk.Buffer}
				if access[k] == nil {
					access[k] = map[ChannelType]bool{}
				}
				access[k][x.channel.kind] = true
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(access), func(a, b bufferKey) int {
		return cmp.Or(a.rank-b.rank, slices.Index(bufferOrder, a.buffer)-slices.Index(bufferOrder, b.buffer))
	})
	at := map[bufferKey]int{}
	for i, k := range keys {
		at[k] = i
		rb := plan.RemoteBuffer{Rank: k.rank, Type: k.buffer}
		for _, kind := range []ChannelType{plan.MemoryChannel, plan.PortChannel} {
			if access[k][kind] {
				rb.Access = append(rb.Access, kind)
			}
		}
		g.RemoteBuffers = append(g.RemoteBuffers, rb)
	}
	return at
}

var bufferOrder = []BufferType{Input, Output, Scratch}

// blockLowering writes one instance of one thread block.
type blockLowering struct {
	p       *CollectiveProgram
	remotes map[bufferKey]int
	inst    instance
	tb      plan.ThreadBlock
}

// run translates the operations. It returns the lines of the plan's ops.
func (l *blockLowering) run(ops []*operation) (lines []int32) {
	count := 0
	var current *loop
	for _, o := range ops {
		count++
		if most := l.p.limits().Ops; count == most+1 {
			l.p.fail(o.pos, ErrLimit, "spread the work over more thread blocks",
				"block %d of rank %d has more than %d operations", o.tb, o.rank, most)
		}
		if o.loop == nil {
			l.tb.Ops = append(l.tb.Ops, l.op(o))
			lines = append(lines, l.p.origins.line(o.pos))
			current = nil
			continue
		}
		if o.loop != current {
			current = o.loop
			count++
			l.tb.Ops = append(l.tb.Ops, plan.Op{Name: plan.Pipeline, UnitSize: int64(current.unit),
				NumChunks: current.numChunks})
			lines = append(lines, l.p.origins.line(current.pos))
		}
		body := &l.tb.Ops[len(l.tb.Ops)-1]
		body.Ops = append(body.Ops, l.op(o))
		lines = append(lines, l.p.origins.line(o.pos))
	}
	return lines
}

func (l *blockLowering) op(o *operation) plan.Op {
	out := plan.Op{Name: o.kind.Name, ChannelType: o.channelType, Slice: l.inst.slice(o), ReduceOp: o.reduce}
	for _, x := range o.src {
		out.Src = append(out.Src, l.chunk(o, x))
	}
	for _, x := range o.dst {
		out.Dst = append(out.Dst, l.chunk(o, x))
	}
	if most := l.p.limits().BuffersPerOp; max(len(out.Src), len(out.Dst)) > most {
		l.p.fail(o.pos, ErrLimit, "reduce in two steps", "%s with %d sources and %d destinations, at most %d", o.kind,
			len(out.Src), len(out.Dst), most)
	}
	// The buffer alone determines a store to a peer's memory; every other operation names its channels.
	if o.kind.Does != plan.Moves || o.channelType == plan.PortChannel || o.kind.Src.At(0).Chunk() == plan.RemoteChunk {
		for _, c := range o.channels {
			out.ChannelIDs = append(out.ChannelIDs, l.channelID(o, c.kind, c.id))
		}
	}
	if o.bound != nil {
		b := *o.bound
		b.Index = l.inst.index(b.Index, o.src[0].chunk.Size)
		out.Bound = &b
	}
	for _, s := range o.semaphores {
		out.SemaphoreIDs = append(out.SemaphoreIDs, l.inst.id(s.id))
	}
	if o.barrier != nil {
		out.BarrierID, out.NumThreadBlocks = l.inst.id(o.barrier.id), len(o.barrier.blocks)
	}
	return out
}

func (l *blockLowering) chunk(o *operation, x operand) plan.Chunk {
	index := l.inst.index(x.chunk.Index, x.chunk.Size)
	switch {
	case x.channel != nil:
		return plan.Remote(l.remoteID(o, x.channel.kind, l.remotes[bufferKey{x.chunk.Rank, x.chunk.Buffer}]), index,
			x.chunk.Size)
	case x.sw != nil:
		return plan.Switch(l.channelID(o, plan.SwitchChannel, x.sw.ids[x.sw.member(o.rank)]), index, x.chunk.Size)
	}
	return plan.Local(x.chunk.Buffer, index, x.chunk.Size)
}

// channelID returns the block's own number for the instance's copy of a channel.
func (l *blockLowering) channelID(o *operation, kind ChannelType, id int) int {
	i := slices.IndexFunc(l.tb.Channels, func(c plan.ChannelRefs) bool { return c.Type == kind })
	if i < 0 {
		i = len(l.tb.Channels)
		l.tb.Channels = append(l.tb.Channels, plan.ChannelRefs{Type: kind})
	}
	return l.number(o, &l.tb.Channels[i].IDs, l.inst.id(id), l.p.limits().ChannelsPerBlock, "channels",
		"uses more than %d %s channels", kind)
}

// remoteID returns the block's own number for a remote buffer of the rank.
func (l *blockLowering) remoteID(o *operation, kind ChannelType, id int) int {
	i := slices.IndexFunc(l.tb.RemoteBufferRefs, func(c plan.BufferRefs) bool { return c.Access == kind })
	if i < 0 {
		i = len(l.tb.RemoteBufferRefs)
		l.tb.RemoteBufferRefs = append(l.tb.RemoteBufferRefs, plan.BufferRefs{Access: kind})
	}
	return l.number(o, &l.tb.RemoteBufferRefs[i].IDs, id, l.p.limits().RemotePerBlock, "peers",
		"reaches more than %d remote buffers by %s", kind)
}

// number returns the position of id in ids, and adds it if it is new. More than most are an error: what and
// exceeds are parts of its text.
func (l *blockLowering) number(o *operation, ids *[]int, id, most int, what, exceeds string, kind ChannelType) int {
	if at := slices.Index(*ids, id); at >= 0 {
		return at
	}
	if len(*ids) == most {
		l.p.fail(o.pos, ErrLimit, "spread the "+what+" over more thread blocks", "block %d of rank %d "+exceeds, o.tb,
			o.rank, most, kind)
	}
	*ids = append(*ids, id)
	return len(*ids) - 1
}

// postcondition returns the postcondition of a user-defined collective; named collectives need none.
func (p *CollectiveProgram) postcondition() []plan.Postcond {
	c := &p.spec.Collective
	if plan.Collective(c.Name).Known() || c.Post == nil {
		return nil
	}
	whole := instance{n: p.spec.Instances, policy: p.spec.ReplicationPolicy}
	size := whole.chunks(1)
	var out []plan.Postcond
	for r := range p.ranks {
		for k := range c.OutputChunks {
			of := c.Post(r, k)
			if len(of) == 0 {
				continue
			}
			pc := plan.Postcond{Rank: r, Index: whole.chunks(k), Size: size}
			for _, from := range of {
				pc.Of = append(pc.Of, plan.Contribution{Rank: from.Rank, Index: whole.chunks(from.Chunk)})
			}
			out = append(out, pc)
		}
	}
	return out
}
