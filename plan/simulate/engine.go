package simulate

// event is a scheduled event. Events of equal time happen in the order of their creation.
type event struct {
	at   float64
	seq  uint64
	kind eventKind
	id   int32   // block, counter, packet chunk or semaphore
	by   int32   // the span that caused it
	x    float64 // share of a packet arrival
}

type eventKind uint8

const (
	resumeEvent  eventKind = iota // block id continues
	segmentEvent                  // block id issues the next segment of its op
	counterEvent                  // counter id is incremented
	packetEvent                   // packets of chunk id arrive
	semEvent                      // semaphore id is incremented
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
}

func newNetwork(m *Machine, ranks int) *network {
	return &network{m: m, ports: make([]port, ranks*int(numPorts))}
}

func (n *network) port(rank int32, k PortKind) *port {
	if k == NICOut || k == NICIn {
		per, nics := int32(n.m.RanksPerHost), int32(n.m.NICsPerHost)
		rank = rank - rank%per + rank%per%nics
	}
	i := int(rank)*int(numPorts) + int(k)
	if i >= len(n.ports) { // the last host is not full, and its NIC would belong to an absent rank
		i = (len(n.ports)/int(numPorts)-1)*int(numPorts) + int(k)
	}
	return &n.ports[i]
}

// micros returns the time of bytes at a rate in GB/s.
func micros(bytes, gbps float64) float64 { return bytes / gbps * 1e-3 }

func (m *Machine) sameHost(a, b int32) bool {
	return a/int32(m.RanksPerHost) == b/int32(m.RanksPerHost)
}

// nvlink moves a segment between GPUs of a host: source's outgoing port, switches, destination's incoming port. It
// returns when the source port started and when the last byte arrived.
func (n *network) nvlink(from, to int32, bytes, efficiency, at float64) (start, end float64) {
	d := micros(bytes, n.m.NVLink.Port*efficiency)
	start = n.port(from, NVLinkOut).reserve(at, d)
	return start, n.port(to, NVLinkIn).reserve(start, d) + d
}

// rail moves a transfer between hosts.
func (n *network) rail(from, to int32, bytes, at float64) (left, end float64) {
	d := micros(bytes, min(n.m.Rail.NIC, n.m.Rail.PCIe))
	start := n.port(from, NICOut).reserve(at, d)
	lat := n.m.Rail.Latency
	per, nics := int32(n.m.RanksPerHost), int32(n.m.NICsPerHost)
	if from%per%nics != to%per%nics {
		lat += n.m.Rail.CrossRail
	}
	return start + d, n.port(to, NICIn).reserve(start+lat, d) + d
}
