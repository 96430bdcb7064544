package plan

// Plane is one of the address spaces of a rank.
type Plane uint8

// The planes. Scratch has two: see ScratchLayout.
const (
	InputPlane Plane = iota
	OutputPlane
	ScratchPlane
	PacketPlane
	numPlanes
)

// String returns a name like "input" or "packets".
func (pl Plane) String() string {
	return [...]string{"input", "output", "scratch", "scratch packets"}[pl]
}

// Place is a range of Size chunks from chunk Index of a plane of a rank.
type Place struct {
	Rank  int
	Plane Plane
	Index int
	Size  int
}

// Move is an elementary data movement: every destination receives the reduction of all sources, byte by byte at the
// same offset. A move with one source is a copy. All places have the same size.
type Move struct {
	Src, Dst []Place
	Entry    int // for a port channel, the index of the op's entry that carries it; -1 otherwise
}

// Step is a resolved op: buffers as ranks, channels as global ids, switch channels as all their members in rank order.
type Step struct {
	Op       *Op
	Pos      Pos
	Moves    []Move
	Channels []int  // op.ChannelIDs as global ids of op.ChannelType on the rank
	Body     []Step // of a pipeline
}

// Program resolves the ops of one thread block of a valid plan. The steps point into the plan.
func (p *Plan) Program(rank, block int) []Step {
	g := &p.GPUs[rank]
	r := resolver{p: p, g: g, tb: &g.ThreadBlocks[block], groups: g.SwitchGroups(), rank: rank}
	return r.steps(r.tb.Ops, Pos{rank, block, -1, -1})
}

type resolver struct {
	p      *Plan
	g      *GPU
	tb     *ThreadBlock
	groups []SwitchGroup
	rank   int
}

func (r *resolver) steps(ops []Op, at Pos) []Step {
	steps := make([]Step, len(ops))
	for i := range ops {
		pos := at
		if at.Op < 0 {
			pos.Op = i
		} else {
			pos.Inner = i
		}
		steps[i] = r.step(&ops[i], pos)
	}
	return steps
}

func (r *resolver) step(op *Op, pos Pos) Step {
	s := Step{Op: op, Pos: pos}
	sh := shapes[op.Name]
	if len(sh.channels) > 0 {
		ids := r.tb.ChannelIDs(op.ChannelType)
		for _, c := range op.ChannelIDs {
			s.Channels = append(s.Channels, ids[c])
		}
	}
	if op.Name == Pipeline {
		s.Body = r.steps(op.Ops, pos)
	}
	if !sh.data {
		return s
	}
	entry := func(i int) int {
		if op.ChannelType == PortChannel {
			return i
		}
		return -1
	}
	if sh.pairs {
		for i := range op.Dst {
			j := op.srcOf(i)
			s.Moves = append(s.Moves, Move{
				Src:   r.places(nil, op, &op.Src[j], op.srcPackets(&sh, j)),
				Dst:   r.places(nil, op, &op.Dst[i], sh.dst.at(i).packets()),
				Entry: entry(i),
			})
		}
		return s
	}
	m := Move{Entry: -1}
	for i := range op.Src {
		m.Src = r.places(m.Src, op, &op.Src[i], op.srcPackets(&sh, i))
	}
	for i := range op.Dst {
		m.Dst = r.places(m.Dst, op, &op.Dst[i], sh.dst.at(i).packets())
	}
	s.Moves = []Move{m}
	return s
}

// places appends the places that c refers to: one, or one per member of a switch channel.
func (r *resolver) places(dst []Place, op *Op, c *Chunk, packets bool) []Place {
	switch c.Kind {
	case RemoteChunk:
		b := &r.g.RemoteBuffers[r.tb.RemoteBufferIDs(op.ChannelType)[c.ID]]
		return append(dst, Place{b.Rank, planeOf(b.Type, packets), c.Index, c.Size})
	case SwitchChunk:
		g := &r.groups[r.tb.ChannelIDs(SwitchChannel)[c.ID]]
		for _, rank := range sortedRanks(g.Ranks) {
			dst = append(dst, Place{rank, planeOf(g.Buffer, packets), c.Index, c.Size})
		}
		return dst
	}
	return append(dst, Place{r.rank, planeOf(c.Type, packets), c.Index, c.Size})
}

func planeOf(t BufferType, packets bool) Plane {
	switch {
	case t == Input:
		return InputPlane
	case t == Output:
		return OutputPlane
	case packets:
		return PacketPlane
	}
	return ScratchPlane
}
