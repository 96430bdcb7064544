package plan

import "iter"

// Plane is one of the address spaces of a rank.
type Plane uint8

// The planes. Scratch has two: see ScratchLayout.
const (
	InputPlane Plane = iota
	OutputPlane
	ScratchPlane
	PacketPlane

	NumPlanes // there are so many
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
	Bound    *Bound // of the op
	Entry    int    // for a port channel, the index of the op's entry that carries it; -1 otherwise
}

// Step is a resolved op, or one of its effects when its threads meet between them: buffers as ranks, channels as global
// ids, switch channels as all their members in rank order.
type Step struct {
	Op       *Op
	Kind     *OpKind
	Does     Effects
	Code     Code // of the first of its effects
	Kernel   Code // what the executor's kernel runs: Code, unless the row names another
	Raw      bool // packets are copied as they are, without looking at flags
	Pos      Pos
	Moves    []Move
	Channels []int  // op.ChannelIDs as global ids of op.ChannelType on the rank
	Body     []Step // of a pipeline
	Hook     int    // of the caller's work at a hook: 1 + its global id on the rank
}

// Entries returns the number of channels or semaphores that the step's threads serve, one each.
func (s *Step) Entries() int {
	if s.Kind.Semaphores {
		return len(s.Op.SemaphoreIDs)
	}
	return len(s.Channels)
}

// EachMove visits the movements of steps and of the bodies of their pipelines, each with its step. Inside of a
// pipeline, Pos.Inner of the step is not negative.
func EachMove(steps []Step) iter.Seq2[*Step, *Move] {
	return func(yield func(*Step, *Move) bool) { visitMoves(steps, yield) }
}

func visitMoves(steps []Step, yield func(*Step, *Move) bool) bool {
	for i := range steps {
		s := &steps[i]
		for j := range s.Moves {
			if !yield(s, &s.Moves[j]) {
				return false
			}
		}
		if !visitMoves(s.Body, yield) {
			return false
		}
	}
	return true
}

// Program resolves the ops of one thread block of a valid plan. The steps point into the plan.
func (p *Plan) Program(rank, block int) []Step {
	g := &p.GPUs[rank]
	r := resolver{g: g, tb: &g.ThreadBlocks[block], groups: g.SwitchGroups(), rank: rank}
	return r.steps(r.tb.Ops, Pos{rank, block, -1, -1})
}

type resolver struct {
	g      *GPU
	tb     *ThreadBlock
	groups []SwitchGroup
	rank   int
}

func (r *resolver) steps(ops []Op, at Pos) []Step {
	steps := make([]Step, 0, len(ops))
	for i := range ops {
		pos, op := at.op(i), &ops[i]
		k := op.Name.Kind()
		last := Effects(0)
		for _, does := range k.phases(op.ChannelType) {
			if last != 0 && op.ChannelType != PortChannel && (last | does).Has(Moves) {
				steps = append(steps, Step{Op: op, Kind: k, Does: Meets, Pos: pos})
			}
			steps = append(steps, r.step(op, k, does, pos))
			last = does
		}
	}
	return steps
}

// phases divides an op over channels of type t into its effects. Over a port channel, a movement and what follows it
// are one: a thread does them entry by entry.
func (k *OpKind) phases(t ChannelType) (all []Effects) {
	for _, e := range [...]Effects{Takes, Moves, Adds, Flushes, Meets, Joins, Loops} {
		switch n := len(all); {
		case !k.Does.Has(e):
		case n > 0 && all[n-1].Has(Moves) && t == PortChannel:
			all[n-1] |= e
		default:
			all = append(all, e)
		}
	}
	return all
}

func (r *resolver) step(op *Op, k *OpKind, does Effects, pos Pos) Step {
	code := does.code(k.Semaphores)
	s := Step{Op: op, Kind: k, Does: does, Code: code, Kernel: code, Pos: pos}
	if k.Code != 0 && does.first() == k.Does.first() {
		s.Kernel = k.Code
	}
	if len(k.Channels) > 0 {
		ids := r.tb.ChannelIDs(op.ChannelType)
		for _, c := range op.ChannelIDs {
			s.Channels = append(s.Channels, ids[c])
		}
	}
	if does.Has(Loops) {
		s.Body = r.steps(op.Ops, pos)
	}
	if !does.Has(Moves) {
		return s
	}
	port := op.ChannelType == PortChannel
	s.Raw = k.Raw && port
	if k.Pairs {
		for i := range op.Dst {
			j, entry := op.srcOf(i), -1
			if port {
				entry = i
			}
			s.Moves = append(s.Moves, Move{
				Src:   r.places(nil, op, &op.Src[j], k.SourcePackets(op.ChannelType, j)),
				Dst:   r.places(nil, op, &op.Dst[i], k.Dst.At(i).Packets()),
				Entry: entry,
				Bound: op.Bound,
			})
		}
		return s
	}
	m := Move{Entry: -1}
	for i := range op.Src {
		m.Src = r.places(m.Src, op, &op.Src[i], k.SourcePackets(op.ChannelType, i))
	}
	for i := range op.Dst {
		m.Dst = r.places(m.Dst, op, &op.Dst[i], k.Dst.At(i).Packets())
	}
	s.Moves = []Move{m}
	return s
}

// places appends the places that c refers to: one, or one per member of a switch channel.
func (r *resolver) places(dst []Place, op *Op, c *Chunk, packets bool) []Place {
	switch c.Kind {
	case RemoteChunk:
		b := &r.g.RemoteBuffers[r.tb.RemoteBufferIDs(op.ChannelType)[c.ID]]
		return append(dst, Place{b.Rank, PlaneOf(b.Type, packets), c.Index, c.Size})
	case SwitchChunk:
		g := &r.groups[r.tb.ChannelIDs(SwitchChannel)[c.ID]]
		for _, rank := range sortedRanks(g.Ranks) {
			dst = append(dst, Place{rank, PlaneOf(g.Buffer, packets), c.Index, c.Size})
		}
		return dst
	}
	return append(dst, Place{r.rank, PlaneOf(c.Type, packets), c.Index, c.Size})
}

// PlaneOf returns the plane of a buffer's packets or of its plain bytes.
func PlaneOf(t BufferType, packets bool) Plane {
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
