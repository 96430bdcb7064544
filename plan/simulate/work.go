package simulate

import (
	"slices"

	"github.com/goccl/goccl/plan"
)

// work is what the threads of a block do for an op. They go through it in rounds: each thread loads the operands of one
// unit, all at once, and stores what becomes of them. So a round takes as long as its slowest load, however many
// operands there are, and rounds follow one another. A copy, which nothing is added to, does not wait for its loads: it
// streams. The sum over the moves of an op, of one iteration.
type work struct {
	local, remote float64 // rounds whose loads are from the GPU's own memory only, and others
	packets       float64 // rounds with packets
	more          float64 // operands of rounds beyond a source and a destination
	copies        float64 // copies begun
	bulk, split   float64 // bytes that stream by bulk copies of whole lines, and of others
	put, own      float64 // and by threads to or from a peer, and within the GPU
}

// Units of a thread in a round. Copies of the quick kernel have several under way.
const (
	plainUnit  = 16
	packetUnit = 8
	quickAhead = 4
)

// line is how many bytes memory and links move at once. A bulk copy that begins elsewhere splits each of its lines.
const line = 128

// streamed is the size from which a copy goes by bulk copies, which need addresses that are multiples of plainUnit.
const streamed = 32 << 10

// operands is what matters of a move for its work.
type operands struct {
	bytes   float64 // of one iteration
	sources int
	others  int  // sources and destinations but one of each
	remote  bool // a source is in another GPU
	distant bool // a destination is
	packets bool // an operand is packets
	whole   bool // plain operands begin with a line of memory
	// What plain sources and destinations are aligned to, plainUnit at most. A unit goes by aligned words.
	loads, stores int64
}

// add adds the work of a move. quick: by the quick kernel.
func (w *work) add(o operands, threads int, quick bool) {
	if o.bytes == 0 {
		return
	}
	if o.others == 0 && !o.packets {
		w.copies++
		switch {
		case o.bytes >= streamed && o.whole:
			w.bulk += o.bytes
		case o.bytes >= streamed && min(o.loads, o.stores) == plainUnit:
			w.split += o.bytes
		case o.remote || o.distant:
			w.put += o.bytes
		default:
			w.own += o.bytes
		}
		return
	}
	lanes := float64(plainUnit * threads)
	if o.packets {
		lanes = float64(packetUnit * threads)
	}
	if quick && o.sources == 1 {
		lanes *= quickAhead
	}
	rounds := max(1, o.bytes/lanes)
	w.more += rounds * float64(o.others)
	switch words := plainUnit / min(o.loads, o.stores); {
	case o.packets && words > 2: // half of what a unit needs are accesses to packets
		w.packets += rounds * float64(1+words/2) / 2
	case o.packets:
		w.packets += rounds
	case o.remote:
		w.remote += rounds * float64(plainUnit/o.loads)
	case o.distant && words > 2: // stores of 8 bytes to a peer are as fast as loads, smaller ones are not
		w.remote += rounds * float64(words)
	case o.distant:
		w.local += rounds * float64(plainUnit/o.loads)
	default:
		w.local += rounds * float64(words)
	}
}

// micros is how long a block is busy.
func (w *work) micros(b *Block, pull float64, quick bool) float64 {
	packet := b.Packet
	if quick {
		packet = b.Quick
	}
	return (w.local+w.copies)*b.Round + w.packets*packet + w.remote*pull + w.more*b.More + micros(w.bulk, b.Bulk) +
		micros(w.split, b.Split) + micros(w.put, b.Put) + micros(w.own, b.Copy)
}

// offset returns where a part of a place begins in its buffer, which begins at a multiple of plainUnit.
func (l *loader) offset(pl plan.Place, part int64) int64 {
	if pl.Plane > plan.OutputPlane {
		return int64(pl.Index)*l.layout.Chunk + part
	}
	return l.layout.Offset(pl.Index) + part
}

// work adds up the work of an op whose operands are divided among iters iterations. Moves of one source after another
// are one, as in the executor's kernels.
func (l *loader) work(in *instr, s *plan.Step, iters int64) {
	for i := 0; i < len(s.Moves); {
		mv := s.Moves[i]
		dst := mv.Dst
		for i++; i < len(s.Moves) && len(mv.Src) == 1 && slices.Equal(s.Moves[i].Src, mv.Src); i++ {
			dst = append(slices.Clip(dst), s.Moves[i].Dst...)
		}
		mv.Dst = dst
		o := l.operandsOf(&mv, s.Op.Slice, l.bytes(&mv, s.Op.Slice)/float64(iters))
		for k := range in.work {
			in.work[k].add(o, l.machine.Block.Threads, k == 1)
		}
	}
}

// operandsOf describes a move of that many bytes.
func (l *loader) operandsOf(mv *plan.Move, s plan.Slice, bytes float64) operands {
	o := operands{bytes: bytes, sources: len(mv.Src), others: max(0, len(mv.Src)+len(mv.Dst)-2), whole: true}
	part, _ := l.layout.Part(mv.Dst[0].Size, s)
	end := func(list []plan.Place, far *bool) int64 {
		word := int64(plainUnit)
		for _, pl := range list {
			if pl.Plane == plan.PacketPlane {
				o.packets = true
				continue
			}
			*far = *far || int32(pl.Rank) != l.rank
			at := l.offset(pl, part)
			o.whole = o.whole && at%line == 0
			for at%word != 0 {
				word /= 2
			}
		}
		return word
	}
	o.loads, o.stores = end(mv.Src, &o.remote), end(mv.Dst, &o.distant)
	return o
}

// maxSegments is the maximum number of segments in which a transfer competes for ports. segmentBytes is the minimum
// size of a segment.
const (
	maxSegments  = 8
	segmentBytes = 32 << 10
)

// issue continues the current data op.
func (r *runner) issue(b int32) {
	s := &r.states[b]
	in := &s.code[s.pc]
	if r.issueAll(b, s, in) {
		end := s.end
		r.complete(s, end)
		if len(r.q.heap) > 0 && r.q.heap[0].at < end {
			r.q.push(event{at: end, kind: resumeEvent, id: b, by: none})
			return
		}
		r.resume(b, end, none)
	}
}

// issueAll issues segments, one per flow in turn, while no earlier event is due. It reports whether all have been
// issued.
func (r *runner) issueAll(b int32, s *blockState, in *instr) bool {
	for s.segment < s.segments {
		if len(r.q.heap) > 0 && r.q.heap[0].at < s.issue {
			r.q.push(event{at: s.issue, kind: segmentEvent, id: b, by: none})
			return false
		}
		r.segment(b, s, &in.flows[s.flow])
		s.flow++
		if s.flow == len(in.flows) {
			s.flow = 0
			s.segment++
			s.issue = max(s.issue+s.row, s.left)
		}
	}
	s.end = max(s.end, s.issue)
	r.net.open(r.blocks[b].rank, in, -1)
	if in.flush {
		for _, l := range in.links {
			s.end = max(s.end, r.linkLeft[l])
		}
	}
	return true
}

func (r *runner) segment(b int32, s *blockState, f *flow) {
	m, rank := r.machine, r.blocks[b].rank
	bytes := f.bytes / float64(s.segments)
	final := s.segment == s.segments-1
	var start, end float64
	switch f.class {
	case portFlow:
		if s.segment == 0 { // the proxy handles the whole transfer
			r.push(rank, s, f)
		}
		return
	case getFlow:
		start, end = r.net.nvlink(f.peer, rank, bytes, m.NVLink.Get, s.issue)
		s.left = max(s.left, start)
		s.end = max(s.end, end+m.Pull)
		return
	case packetFlow:
		start, end = r.net.nvlink(rank, f.peer, bytes*packetFactor, m.NVLink.Packet, s.issue+s.lead)
		if s.segment == 0 {
			for _, p := range f.arrival {
				r.first[p.chunk] = max(r.first[p.chunk], start+m.Flag)
			}
		}
		if final {
			for _, p := range f.arrival {
				at := max(end, s.issue+s.row) + m.Flag
				r.q.push(event{at: at, kind: packetEvent, id: p.chunk, by: s.last, x: p.share})
			}
		}
	default:
		start, end = r.net.nvlink(rank, f.peer, bytes, m.NVLink.Put, s.issue+s.lead)
	}
	s.left = max(s.left, start-s.lead)
	s.stores = max(s.stores, end)
}

// push passes a transfer to the rank's proxy, which starts it after earlier ones. Transfers of one channel arrive in
// order, and a signal arrives after them.
func (r *runner) push(rank int32, s *blockState, f *flow) {
	m := r.machine
	at := r.net.port(rank, Proxy).reserve(s.issue, m.Rail.Proxy) + m.Rail.Proxy
	var left, end float64
	if r.machine.sameHost(rank, f.peer) {
		start, e := r.net.nvlink(rank, f.peer, f.bytes, m.NVLink.Copy, at)
		left, end = start+micros(f.bytes, m.NVLink.Port*m.NVLink.Copy), e+m.Flag
	} else {
		left, end = r.net.rail(rank, f.peer, f.bytes, at)
	}
	r.linkEnd[f.link] = max(r.linkEnd[f.link], end)
	r.linkLeft[f.link] = max(r.linkLeft[f.link], left)
	if f.counter != none {
		r.q.push(event{at: r.linkEnd[f.link], kind: counterEvent, id: f.counter, by: s.last})
	}
	for _, p := range f.arrival {
		r.q.push(event{at: r.linkEnd[f.link], kind: packetEvent, id: p.chunk, by: s.last, x: p.share})
	}
}

// callers adds blocks for the signals and waits of a rank's caller at hooks. The caller's computation costs the plan
// nothing.
func (m *model) callers(links *plan.Links, rank int) error {
	hooks := m.plan.GPUs[rank].Hooks()
	raised := 0
	for h := range hooks {
		steps := slices.DeleteFunc(m.plan.CallerProgram(rank, h), func(s plan.Step) bool {
			return !s.Does.Has(plan.Takes) && !s.Does.Has(plan.Adds)
		})
		l := loader{model: m, links: links, rank: int32(rank)}
		code, err := l.steps(steps, 1)
		if err != nil {
			return err
		}
		b := block{rank: int32(rank), id: int32(len(m.plan.GPUs[rank].ThreadBlocks) + h), code: code}
		if hooks[h].Takes() {
			raised++
			b.begin = m.machine.Hook * float64(raised)
		}
		m.blocks = append(m.blocks, b)
	}
	return nil
}

// caller reports whether the block is the caller's work at a hook.
func (b *block) caller(p *plan.Plan) bool { return int(b.id) >= len(p.GPUs[b.rank].ThreadBlocks) }
