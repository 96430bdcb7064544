package simulate

import (
	"fmt"
	"slices"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/symmetry"
)

// instr is one op with everything resolved that its cost depends on. Its slices point into the tables of its model, so
// that a plan with millions of ops needs few allocations.
type instr struct {
	name    plan.OpName
	does    plan.Effects
	pos     plan.Pos
	places  int     // operands
	local   float64 // bytes that the block reads and writes in its own memory
	work    [2]work // of the block, by the general and the quick kernel
	flows   []flow
	signals []int32 // counters to increment
	waits   []int32 // counters to consume one from each
	needs   []packets
	sends   []packets // packets that arrive at the rank's own scratch
	links   []int32   // of a signal: its channels; of a flush: those whose transfers it waits for
	body    []instr
	iters   int32
	flush   bool
	fenced  bool // a release: orders earlier stores first
	barrier int32
	blocks  int32
	// counters of semaphores that it adds to
	releases []int32
}

// flow is payload that one rank's port sends to another's.
type flow struct {
	peer    int32
	class   flowClass
	bytes   float64
	arrival []packets // packets it carries
	counter int32     // incremented when it has arrived, or -1
	link    int32     // port transfers: the link that orders it
}

type flowClass uint8

const (
	putFlow flowClass = iota
	getFlow
	packetFlow
	portFlow
)

// packets is a share of the packets of a chunk in a rank's scratch. All shares of a launch add up to one.
type packets struct {
	chunk int32 // index into model.packets
	share float64
}

type block struct {
	rank, id int32
	code     []instr
	begin    float64 // of a caller's work: when it starts
}

// model is a plan prepared for one machine and message.
type model struct {
	plan     *plan.Plan
	symmetry *symmetry.Group // or nil
	layout   *plan.Layout
	machine  *Machine
	blocks   []block
	counters []int32 // at the start: of links, then of semaphores
	links    int
	linkPeer []int32 // the rank at the other end
	linkPort []bool
	packets  []int32 // by rank: start of its scratch chunks in the table of packet arrivals
	nPackets int
	barriers []int32 // by rank: start of its barriers
	nBarrier int
	sems     []int32 // by rank: start of its semaphores among the counters
	begin    float64 // when blocks start
	general  bool    // the quick kernel does not take the launch
	foreign  bool    // an op accesses the input or output of another rank in its memory
}

// load prepares a plan. With a symmetry, only representatives have programs, and what others do is theirs.
func load(p *plan.Plan, s *symmetry.Group, m *Machine, size int64) (*model, error) {
	if err := p.Validate(&plan.Capacity); err != nil {
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if m.Fabric != nil && m.Fabric.Ranks() != len(p.GPUs) {
		return nil, fmt.Errorf("simulate: plan %s has %d ranks, topology %s has %d GPUs: %w", p.Name, len(p.GPUs),
			m.Fabric.Name, m.Fabric.Ranks(), ErrMachine)
	}
	layout, err := p.NewLayout(uint64(size))
	if err != nil {
		return nil, err
	}
	out := &model{plan: p, layout: layout, machine: m, symmetry: s}
	links := p.Links()
	out.counters, out.links = make([]int32, len(links.All)), len(links.All)
	for _, l := range links.All {
		out.linkPeer = append(out.linkPeer, int32(l.Peer))
		out.linkPort = append(out.linkPort, l.Type == plan.PortChannel)
	}
	for r := range p.GPUs {
		g := &p.GPUs[r]
		out.packets = append(out.packets, int32(out.nPackets))
		out.nPackets += g.ScratchChunks
		out.barriers = append(out.barriers, int32(out.nBarrier))
		out.nBarrier += g.Barriers()
		out.sems = append(out.sems, int32(len(out.counters)))
		for _, s := range g.Semaphores {
			out.counters = append(out.counters, int32(s.InitValue))
		}
	}
	for r := range p.GPUs {
		if s != nil && s.Representative(r) != r {
			continue
		}
		for b := range p.GPUs[r].ThreadBlocks {
			l := loader{model: out, links: links, rank: int32(r)}
			code, err := l.steps(p.Program(r, b), 1)
			if err != nil {
				return nil, err
			}
			out.blocks = append(out.blocks, block{rank: int32(r), id: int32(b), code: code})
		}
		if err := out.callers(links, r); err != nil {
			return nil, err
		}
	}
	out.general = !layout.Even() ||
		slices.ContainsFunc(out.blocks, func(b block) bool { return !b.caller(p) && !quick(b.code) })
	return out.on(m), nil
}

// on returns the model on a machine that differs in parameters of time only. The two share the resolved program.
func (m *model) on(machine *Machine) *model {
	out := *m
	out.machine, out.begin = machine, machine.Launch
	if m.general {
		out.begin += machine.General
	}
	if m.foreign {
		out.begin += machine.Exchange
	}
	return &out
}

// quick reports whether the quick kernel takes the ops: movements of packets, and nops.
func quick(code []instr) bool {
	return !slices.ContainsFunc(code, func(in instr) bool {
		return in.does != plan.Meets && (in.does != plan.Moves ||
			slices.ContainsFunc(in.flows, func(f flow) bool { return f.class != packetFlow }))
	})
}

type loader struct {
	*model
	links *plan.Links
	rank  int32
}

func (l *loader) link(t plan.ChannelType, id int) int32 {
	return int32(l.links.Index(int(l.rank), t, id))
}

// steps prepares ops whose operands are divided among iters iterations.
func (l *loader) steps(steps []plan.Step, iters int64) ([]instr, error) {
	out := make([]instr, len(steps))
	for i := range steps {
		if err := l.step(&out[i], &steps[i], iters); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (l *loader) step(in *instr, s *plan.Step, iters int64) (err error) {
	op := s.Op
	in.name, in.does, in.pos = op.Name, s.Does, s.Pos
	switch {
	case s.Does.Has(plan.Loops):
		n := max(1, l.layout.Iterations(op))
		if n > 1<<20 {
			return fmt.Errorf("simulate: %v: %d iterations are too many to simulate", s.Pos, n)
		}
		in.iters = int32(n)
		in.body, err = l.steps(s.Body, n)
		return err
	case s.Does.Has(plan.Moves):
		l.data(in, s, iters)
	case s.Does.Has(plan.Joins):
		in.barrier, in.blocks = l.barriers[l.rank]+int32(op.BarrierID), int32(op.NumThreadBlocks)
	case s.Kind.Semaphores:
		in.fenced = s.Does.Has(plan.Adds)
		list := &in.waits
		if in.fenced {
			list = &in.releases
		}
		for _, id := range op.SemaphoreIDs {
			*list = append(*list, l.sems[l.rank]+int32(id))
		}
	default:
		l.channels(in, s)
	}
	return l.onHost(in, s)
}

// channels prepares an op that only synchronizes.
func (l *loader) channels(in *instr, s *plan.Step) {
	for _, c := range s.Channels {
		link := l.link(s.Op.ChannelType, c)
		if s.Does.Has(plan.Takes) {
			in.waits = append(in.waits, link)
			continue
		}
		in.links = append(in.links, link)
		if s.Does.Has(plan.Adds) {
			in.signals = append(in.signals, l.counterOf(s.Op.ChannelType, c))
		}
	}
	in.flush = s.Does.Has(plan.Flushes)
	in.fenced = s.Does.Has(plan.Adds) && !s.Kind.Relaxed() && s.Op.ChannelType != plan.PortChannel
}

// onHost rejects an op that accesses ranks of other hosts without a port channel.
func (l *loader) onHost(in *instr, s *plan.Step) error {
	away := func(peer int32) error {
		if !l.machine.connected(l.rank, peer) {
			return fmt.Errorf("simulate: %v (%s): %w: topology %s has no way to rank %d that leads through no GPU", s.Pos,
				in.name, ErrUnreachable, l.machine.Fabric.Name, peer)
		}
		if l.machine.sameHost(l.rank, peer) {
			return nil
		}
		return fmt.Errorf("simulate: %v (%s): %w: rank %d is on another host of machine %q, which has %d ranks each; use "+
			"port channels there, or a machine with more ranks_per_host",
			s.Pos, in.name, ErrUnreachable, peer, l.machine.Name, l.machine.RanksPerHost)
	}
	for i := range in.flows {
		f := &in.flows[i]
		if f.class == portFlow && l.machine.connected(l.rank, f.peer) {
			continue
		}
		if err := away(f.peer); err != nil {
			return err
		}
	}
	if s.Op.ChannelType != plan.MemoryChannel {
		return nil
	}
	for _, c := range s.Channels {
		if err := away(l.linkPeer[l.link(plan.MemoryChannel, c)]); err != nil {
			return err
		}
	}
	return nil
}

// counterOf returns the counter that a signal on a channel increments: the one on which the other end waits, or -1 if
// there is none.
func (l *loader) counterOf(t plan.ChannelType, id int) int32 {
	pair := l.links.All[l.link(t, id)].Pair
	if pair < 0 || l.symmetry == nil {
		return int32(pair)
	}
	owner := l.links.All[pair].Rank
	first, _ := l.links.Of(owner)
	home, _ := l.links.Of(l.symmetry.Representative(owner))
	return int32(home + pair - first)
}

// packetChunk returns the index of the packets of a scratch chunk.
func (l *loader) packetChunk(rank, k int) int32 {
	if l.symmetry != nil {
		k = l.symmetry.Home(rank, plan.PacketPlane, k)
		rank = l.symmetry.Representative(rank)
	}
	return l.packets[rank] + int32(k)
}

func (l *loader) data(in *instr, s *plan.Step, iters int64) {
	op := s.Op
	port := op.ChannelType == plan.PortChannel
	if !port {
		l.work(in, s, iters)
	}
	for i := range s.Moves {
		mv := &s.Moves[i]
		bytes := l.bytes(mv, op.Slice) / float64(iters)
		in.places += len(mv.Src) + len(mv.Dst)
		share := 1 / float64(max(op.Slice.Count, 1)) / float64(iters)
		for _, list := range [2][]plan.Place{mv.Src, mv.Dst} {
			l.foreign = l.foreign || !port && slices.ContainsFunc(list, func(pl plan.Place) bool {
				return int32(pl.Rank) != l.rank && pl.Plane <= plan.OutputPlane
			})
		}
		for _, src := range mv.Src {
			if int32(src.Rank) != l.rank {
				in.flows = append(in.flows, flow{peer: int32(src.Rank), class: getFlow, bytes: bytes, counter: -1})
				continue
			}
			if !port {
				in.local += bytes
			}
			if src.Plane == plan.PacketPlane && !s.Raw {
				in.local += bytes // flags
				for k := range src.Size {
					in.needs = append(in.needs, packets{l.packetChunk(int(l.rank), src.Index+k), share})
				}
			}
		}
		for _, dst := range mv.Dst {
			l.send(in, s, mv, dst, bytes, share)
		}
	}
}

// send adds what an op moves to one destination: bytes, and a share of its packets.
func (l *loader) send(in *instr, s *plan.Step, mv *plan.Move, dst plan.Place, bytes, share float64) {
	var carried []packets
	if dst.Plane == plan.PacketPlane {
		for k := range dst.Size {
			carried = append(carried, packets{l.packetChunk(dst.Rank, dst.Index+k), share})
		}
	}
	if int32(dst.Rank) == l.rank {
		in.local += bytes
		in.sends = append(in.sends, carried...)
		return
	}
	f := flow{peer: int32(dst.Rank), class: putFlow, bytes: bytes, arrival: carried, counter: -1}
	switch {
	case s.Op.ChannelType == plan.PortChannel:
		f.class = portFlow
		if len(carried) > 0 {
			f.bytes *= packetFactor
		}
		id := s.Channels[min(max(mv.Entry, 0), len(s.Channels)-1)]
		f.link = l.link(plan.PortChannel, id)
		if s.Does.Has(plan.Adds) {
			f.counter = l.counterOf(plan.PortChannel, id)
		}
		if s.Does.Has(plan.Flushes) {
			in.flush = true
			in.links = append(in.links, f.link)
		}
	case len(carried) > 0:
		f.class = packetFlow
	}
	in.flows = append(in.flows, f)
}

// packetFactor is the size of packets per payload byte: half of a packet is flags.
const packetFactor = 2

// bytes returns the payload of a move: the part of its slice that exists in the message.
func (l *loader) bytes(mv *plan.Move, s plan.Slice) float64 {
	full := float64(int64(mv.Dst[0].Size) * l.layout.Chunk)
	if full == 0 {
		return 0
	}
	real := full
	for _, list := range [2][]plan.Place{mv.Src, mv.Dst} {
		for _, pl := range list {
			if pl.Plane == plan.InputPlane || pl.Plane == plan.OutputPlane {
				real = min(real, float64(l.layout.Offset(pl.Index+pl.Size)-l.layout.Offset(pl.Index)))
			}
		}
	}
	lo, hi := l.layout.Part(mv.Dst[0].Size, s)
	return min(float64(hi-lo), max(0, real-float64(lo)))
}
