package simulate

// maxSegments is the maximum number of segments in which a transfer competes for ports. segmentBytes is the minimum
// size of a segment.
const (
	maxSegments  = 8
	segmentBytes = 32 << 10
)

// issue continues the current data op.
func (r *runner) issue(b int32, now float64) {
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
		r.segment(b, s, in, &in.flows[s.flow])
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

func (r *runner) segment(b int32, s *blockState, in *instr, f *flow) {
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
