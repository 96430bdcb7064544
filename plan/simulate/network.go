package simulate

import (
	"github.com/goccl/goccl/plan/fabric"
	"github.com/goccl/goccl/plan/symmetry"
)

// event is a scheduled event. Events of equal time happen in the order of their creation.
type event struct {
	at   float64
	seq  uint64
	kind eventKind
	id   int32   // block, counter or packet chunk
	by   int32   // the span that caused it
	x    float64 // share of a packet arrival
}

type eventKind uint8

const (
	resumeEvent  eventKind = iota // block id continues
	segmentEvent                  // block id issues the next segment of its op
	counterEvent                  // counter id is incremented
	packetEvent                   // packets of chunk id arrive
)

// queue is a 4-ary heap of events.
type queue struct {
	heap []event
	seq  uint64
}

func (q *queue) less(a, b *event) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (q *queue) push(e event) {
	q.seq++
	e.seq = q.seq
	q.heap = append(q.heap, e)
	i := len(q.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !q.less(&e, &q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = e
}

func (q *queue) pop() event {
	top := q.heap[0]
	last := q.heap[len(q.heap)-1]
	q.heap = q.heap[:len(q.heap)-1]
	n := len(q.heap)
	if n == 0 {
		return top
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, n); c++ {
			if q.less(&q.heap[c], &q.heap[least]) {
				least = c
			}
		}
		if !q.less(&q.heap[least], &last) {
			break
		}
		q.heap[i] = q.heap[least]
		i = least
	}
	q.heap[i] = last
	return top
}

// PortKind is a resource of a rank that transfers share.
type PortKind uint8

// The ports of a rank.
const (
	NVLinkOut PortKind = iota
	NVLinkIn
	NICOut
	NICIn
	Memory
	Proxy
	numPorts
)

func (k PortKind) String() string {
	return [...]string{"nvlink out", "nvlink in", "nic out", "nic in", "memory", "proxy"}[k]
}

// port serves reservations one after another.
type port struct {
	free float64 // when the next reservation may start
	busy float64 // total time served
}

// reserve takes the port for duration d, from time at or when it becomes free, and returns the start.
func (p *port) reserve(at, d float64) float64 {
	start := max(at, p.free)
	p.free = start + d
	p.busy += d
	return start
}

// network holds the ports of all ranks. Ranks that share a NIC share its port.
type network struct {
	m     *Machine
	ports []port
	wires *wires // of the machine's fabric, or nil
	meets meetings
	up    []port // of leaf switches to the spine
	down  []port
	at    []place // by rank
}

// place is where a rank's transfers are served: the ports of the rank that stands for it, of the NIC and of the leaf.
// With a symmetry, a transfer stands for equal transfers of several ranks: nicTimes and upTimes of them share the NIC
// and the leaf.
type place struct {
	rank, nic, leaf   int32
	nicTimes, upTimes float64
}

func newNetwork(m *Machine, ranks int, s *symmetry.Group) *network {
	n := &network{m: m, ports: make([]port, ranks*int(numPorts)), at: make([]place, ranks)}
	leaves := int32(0)
	for r := range n.at {
		rank := int32(r)
		n.at[r] = place{rank, min(m.nicOf(rank), int32(ranks-1)), m.leafOf(rank), 1, 1}
		leaves = max(leaves, n.at[r].leaf+1)
	}
	if s != nil {
		n.fold(s)
	}
	n.up, n.down = make([]port, leaves), make([]port, leaves)
	if m.Fabric != nil {
		edges := len(m.Fabric.Edges)
		n.wires = &wires{g: m.Fabric, edges: make([]port, edges), times: make([][][2]float64, edges)}
	} else {
		n.meets = newMeetings(ranks, m.RanksPerHost)
	}
	return n
}

func (n *network) port(rank int32, k PortKind) *port {
	i := n.at[rank].rank
	if k == NICOut || k == NICIn {
		i = n.at[rank].nic
	}
	return &n.ports[int(i)*int(numPorts)+int(k)]
}

// micros returns the time of bytes at a rate in GB/s.
func micros(bytes, gbps float64) float64 { return bytes / gbps * 1e-3 }

// nvlink moves a segment between GPUs of a host: source's outgoing port, switches, destination's incoming port. It
// returns when the source port started and when the last byte arrived.
func (n *network) nvlink(from, to int32, bytes, efficiency, at float64) (start, end float64) {
	if n.wires != nil {
		start, _, end = n.wires.send(from, to, bytes, min(1, efficiency/n.m.NVLink.Put), at)
		return start, end
	}
	d := micros(bytes, n.m.NVLink.Port*efficiency) * n.meets.longer(n.at[from].rank, n.at[to].rank, n.m.NVLink.Collide)
	start = n.port(from, NVLinkOut).reserve(at, d)
	return start, n.port(to, NVLinkIn).reserve(start, d) + d
}

// rail moves a transfer between hosts.
func (n *network) rail(from, to int32, bytes, at float64) (left, end float64) {
	if n.wires != nil {
		_, left, end = n.wires.send(from, to, bytes, 1, at)
		return left, end
	}
	rate := micros(bytes, min(n.m.Rail.NIC, n.m.Rail.PCIe))
	d := rate * n.at[from].nicTimes
	start := n.port(from, NICOut).reserve(at, d)
	head := start + n.m.Rail.Latency
	if n.m.railOf(from) != n.m.railOf(to) {
		head += n.m.Rail.CrossRail
	}
	end = head
	if a, b := n.m.leafOf(from), n.m.leafOf(to); a != b {
		a, b = n.at[from].leaf, n.at[to].leaf
		// All cables between a leaf and the spine are one link.
		up := micros(bytes, float64(n.m.Rail.HostsPerLeaf)*n.m.Rail.NIC/max(1, n.m.Rail.Oversubscription))
		u := up * n.at[from].upTimes
		head = n.up[a].reserve(head+n.m.Rail.Spine, u)
		end = head + u
		u = up * n.at[to].upTimes
		head = n.down[b].reserve(head, u)
		end = max(end, head+u)
	}
	in := rate * n.at[to].nicTimes
	return start + d, max(end, n.port(to, NICIn).reserve(head, in)+in)
}

// fold maps ranks, NICs and leaves that are equivalent under s to one representative.
func (n *network) fold(s *symmetry.Group) {
	for r := range n.at {
		p := &n.at[r]
		nic, leaf := p.nic, p.leaf
		p.rank, p.nicTimes, p.upTimes = int32(s.Representative(r)), 0, 0
		s.Images(r, func(to int) {
			other := n.m.nicOf(int32(to))
			p.nic = min(p.nic, other)
			if other == nic {
				p.nicTimes++
			}
			at := n.m.leafOf(int32(to))
			p.leaf = min(p.leaf, at)
			if at == leaf {
				p.upTimes++
			}
		})
	}
}

// meetings counts the blocks whose transfers are under way between the GPUs of a host.
type meetings struct {
	host  int
	pairs []int32      // blocks from a rank to another of its host
	out   []meetsAtEnd // by rank that stands for the sender
	in    []meetsAtEnd
}

// meetsAtEnd counts the transfers under way at one end: the ranks at their other ends, and their blocks.
type meetsAtEnd struct{ peers, blocks int32 }

func newMeetings(ranks, host int) meetings {
	host = min(host, ranks)
	return meetings{host: host, pairs: make([]int32, ranks*host), out: make([]meetsAtEnd, ranks),
		in: make([]meetsAtEnd, ranks)}
}

// open counts the transfers of an op that begins (by 1) or ends (by −1) among those under way.
func (n *network) open(rank int32, in *instr, by int32) {
	if n.wires != nil {
		return
	}
	for i := range in.flows {
		switch f := &in.flows[i]; f.class {
		case getFlow:
			n.meet(f.peer, rank, by)
		case putFlow, packetFlow:
			n.meet(rank, f.peer, by)
		}
	}
}

func (n *network) meet(from, to, by int32) {
	t := &n.meets
	pair := &t.pairs[int(from)*t.host+int(to)%t.host]
	was := *pair
	*pair += by
	change := int32(0)
	if (was == 0) != (*pair == 0) {
		change = by
	}
	for _, e := range [2]*meetsAtEnd{&t.out[n.at[from].rank], &t.in[n.at[to].rank]} {
		e.blocks += by
		e.peers += change
	}
}

// longer is the factor by which a transfer takes longer because of others. Its growth with the number of peers is that
// of switches with queues at their inputs, whose throughput is 1/(1 + 0.7·(1 − 1/k)) (Karol, Hluchyj, Morgan 1987).
func (t *meetings) longer(from, to int32, collide float64) float64 {
	at := &t.in[to]
	k := min(at.peers, t.out[from].peers)
	if k < 2 {
		return 1
	}
	return 1 + collide*(1-1/float64(k))*float64(at.peers)/float64(at.blocks)
}

// wires is a fabric while a plan runs on it: every edge serves one segment after another.
type wires struct {
	g     *fabric.Graph
	edges []port
	times [][][2]float64 // when an edge was busy: from, to
}

// send moves a segment over the edges of its route. Each edge starts when the one before has started and its latency
// has passed (cut-through), so that the slowest edge sets the pace. It returns when the first edge started, when it was
// done, and when the last byte arrived.
func (w *wires) send(from, to int32, bytes, efficiency, at float64) (start, left, end float64) {
	route, _ := w.g.Route(int(from), int(to))
	head := at
	for i, e := range route {
		d := micros(bytes, w.g.Edges[e].GBps*efficiency)
		head = w.edges[e].reserve(head, d)
		w.note(e, head, head+d)
		if i == 0 {
			start, left = head, head+d
		}
		head += w.g.Edges[e].Micros
		end = max(end, head+d)
	}
	return start, left, end
}

// note records that an edge is busy, and joins times without a gap.
func (w *wires) note(e int32, from, to float64) {
	if n := len(w.times[e]); n > 0 && from <= w.times[e][n-1][1]+1e-6 {
		w.times[e][n-1][1] = to
		return
	}
	w.times[e] = append(w.times[e], [2]float64{from, to})
}

// LinkUse is how long an edge of the machine's fabric was busy.
type LinkUse struct {
	Edge   int
	Bytes  float64
	Micros float64
	Share  float64      // of the run
	Busy   [][2]float64 // when: from, to
}

// linkUse reports every edge that was used.
func (w *wires) linkUse(total float64) (out []LinkUse) {
	for i := range w.edges {
		if busy := w.edges[i].busy; busy > 0 {
			out = append(out, LinkUse{Edge: i, Bytes: busy * w.g.Edges[i].GBps * 1e3, Micros: busy, Share: busy / total,
				Busy: w.times[i]})
		}
	}
	return out
}

// sameHost reports whether two ranks are on one host, where they load and store each other's memory.
func (m *Machine) sameHost(a, b int32) bool {
	if m.Fabric != nil {
		return m.Fabric.SameHost(int(a), int(b))
	}
	return a/int32(m.RanksPerHost) == b/int32(m.RanksPerHost)
}

// connected reports whether there is a way between two ranks.
func (m *Machine) connected(a, b int32) bool {
	if m.Fabric == nil || a == b {
		return true
	}
	route, _ := m.Fabric.Route(int(a), int(b))
	return len(route) > 0
}

// latency is what the route between two ranks of a fabric adds to a flag or a signal.
func (m *Machine) latency(a, b int32) float64 {
	if m.Fabric == nil || a == b {
		return 0
	}
	_, us := m.Fabric.Route(int(a), int(b))
	return us
}
