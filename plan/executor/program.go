package executor

import (
	"slices"

	"github.com/goccl/goccl/plan"
)

// program is what one rank runs: the resolved ops of its thread blocks, in a flat list per block.
type program struct {
	plan   *plan.Plan
	rank   int
	hosts  []int // by rank; nil if there is one
	blocks [][]instr

	hooks     []plan.Hook // of this rank
	firstHook int         // their first link
	links     int         // channel ends on this rank
	maxLinks  int         // the same, of the rank that has most
	peer      []int       // by link of this rank: the rank at the other end
	pair      []int       // the peer's link at the other end, -1 for none
	barriers  int
	distant   []int // the ranks of other hosts to or from which a port channel leads

	scratch bool // some op uses scratch
	remote  bool // some rank of this host touches another's input or output
	// touched[k] is set when some peer of this host touches this rank's input (k 0) or output (k 1).
	touched [2]bool
	// watchers are the ranks of this host that touch this rank's input or output. They may sleep until this rank has
	// published its buffers.
	watchers []int
}

// instr is one op. A pipeline is a CodeLoop, its body and a CodeEndLoop.
type instr struct {
	does   plan.Effects // none for the end of a pipeline
	code   plan.Code
	kernel plan.Code // what the kernel runs: code, unless the op has a different kernel code
	raw    bool      // packets are read without checking their flags
	signal bool      // signals its links after the data
	opens  bool      // a program that has done nothing else is still at its beginning
	fixed  bool      // the op specifies the reduction's operator
	inner  bool      // in a pipeline
	to     int
	op     *plan.Op
	pos    plan.Pos
	moves  []move
	links  []int // of this rank
	io     []int // other ranks whose input or output is touched
	wakes  []int // other ranks that receive packets
	waits  bool  // has packet sources
	remote bool  // a link leads to another host
}

// isRemote reports whether a rank is on another host.
func (prog *program) isRemote(r int) bool {
	return prog.hosts != nil && prog.hosts[r] != prog.hosts[prog.rank]
}

// move is a plan.Move, or a slice of one.
type move struct {
	plan.Move
	slice plan.Slice
}

// compile resolves the program of one rank. The plan must be valid. hosts are the hosts by rank, or nil.
func compile(p *plan.Plan, rank int, hosts []int) (*program, error) {
	g := &p.GPUs[rank]
	prog := &program{plan: p, rank: rank, hosts: hosts, hooks: g.Hooks(), scratch: p.UsesPackets() || p.UsesPlainScratch()}
	prog.link(p)
	nmem := len(g.Peers(plan.MemoryChannel))
	prog.firstHook = nmem + len(g.Peers(plan.PortChannel))
	for b := range g.ThreadBlocks {
		var list []instr
		for _, s := range p.Program(rank, b) {
			in := prog.instr(&s, nmem)
			if !s.Does.Has(plan.Loops) {
				list = append(list, in)
				continue
			}
			begin := len(list)
			list = append(list, in)
			for i := range s.Body {
				in := prog.instr(&s.Body[i], nmem)
				in.inner = true
				list = append(list, in)
			}
			list = append(list, instr{code: plan.CodeEndLoop, kernel: plan.CodeEndLoop, op: s.Op, pos: s.Pos, to: begin + 1})
			list[begin].to = len(list)
		}
		for i := range list {
			in := &list[i]
			for _, l := range in.links {
				if in.does.Has(plan.Adds) && prog.pair[l] < 0 {
					return nil, invalid("%v (%s): rank %d has no channel for the signal to arrive on", in.pos, in.op.Name,
						prog.peer[l])
				}
			}
		}
		prog.blocks = append(prog.blocks, list)
	}
	prog.touch(p)
	return prog, nil
}

// link numbers the channel ends of each rank: memory, port, then hooks, each by global id.
func (prog *program) link(p *plan.Plan) {
	links := p.Links()
	for r := range p.GPUs {
		first, end := links.Of(r)
		prog.maxLinks = max(prog.maxLinks, end-first)
	}
	first, end := links.Of(prog.rank)
	prog.links = end - first
	for _, l := range links.All {
		other := -1
		switch {
		case l.Rank == prog.rank:
			other = l.Peer
		case l.Peer == prog.rank:
			other = l.Rank
		}
		if other >= 0 && prog.isRemote(other) && !slices.Contains(prog.distant, other) {
			prog.distant = append(prog.distant, other)
		}
	}
	slices.Sort(prog.distant)
	for _, l := range links.All[first:end] {
		pair := -1
		if l.Pair >= 0 {
			at, _ := links.Of(l.Peer)
			pair = l.Pair - at
		}
		prog.peer, prog.pair = append(prog.peer, l.Peer), append(prog.pair, pair)
	}
}

func (prog *program) instr(s *plan.Step, nmem int) instr {
	in := instr{does: s.Does, code: s.Code, kernel: s.Kernel, op: s.Op, pos: s.Pos, fixed: s.Op.ReduceOp != plan.CallerOp,
		raw:   s.Raw,
		opens: s.Kind.Opens(), signal: s.Does.Has(plan.Moves | plan.Adds)}
	for _, id := range s.Channels {
		switch s.Op.ChannelType {
		case plan.PortChannel:
			id += nmem
		case plan.HookChannel:
			id += prog.firstHook
		}
		if s.Op.ChannelType != plan.SwitchChannel {
			in.links = append(in.links, id)
			in.remote = in.remote || prog.isRemote(prog.peer[id])
		}
	}
	if s.Does.Has(plan.Joins) {
		prog.barriers = max(prog.barriers, s.Op.BarrierID+1)
	}
	for i := range s.Moves {
		m := &s.Moves[i]
		in.moves = append(in.moves, move{*m, s.Op.Slice})
		for _, pl := range m.Src {
			in.waits = in.waits || pl.Plane == plan.PacketPlane && !in.raw
			in.touches(prog, &pl)
		}
		for _, pl := range m.Dst {
			in.touches(prog, &pl)
			if pl.Plane == plan.PacketPlane && pl.Rank != prog.rank && !prog.isRemote(pl.Rank) &&
				!slices.Contains(in.wakes, pl.Rank) {
				in.wakes = append(in.wakes, pl.Rank)
			}
		}
	}
	return in
}

func (in *instr) touches(prog *program, pl *plan.Place) {
	if pl.Rank != prog.rank && !prog.isRemote(pl.Rank) && pl.Plane <= plan.OutputPlane &&
		!slices.Contains(in.io, pl.Rank) {
		in.io = append(in.io, pl.Rank)
	}
}

// touch finds the peers that access this rank's input and output.
func (prog *program) touch(p *plan.Plan) {
	for r := range p.GPUs {
		g := &p.GPUs[r]
		mine := false
		for i := range g.RemoteBuffers {
			b := &g.RemoteBuffers[i]
			prog.remote = prog.remote || b.Type != plan.Scratch && !prog.isRemote(r) && !prog.isRemote(b.Rank)
			if r == prog.rank || b.Rank != prog.rank || b.Type == plan.Scratch || prog.isRemote(r) {
				continue
			}
			prog.touched[plane(b.Type)], mine = true, true
		}
		for _, sw := range g.SwitchGroups() {
			prog.remote = prog.remote || sw.Buffer != plan.Scratch && len(sw.Ranks) > 1 && !prog.isRemote(r)
			if r != prog.rank && sw.Buffer != plan.Scratch && slices.Contains(sw.Ranks, prog.rank) {
				prog.touched[plane(sw.Buffer)], mine = true, true
			}
		}
		if mine {
			prog.watchers = append(prog.watchers, r)
		}
	}
}

func plane(t plan.BufferType) plan.Plane {
	if t == plan.Input {
		return plan.InputPlane
	}
	return plan.OutputPlane
}
