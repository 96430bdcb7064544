package simulate

import "github.com/goccl/goccl/plan/fabric"

// wires is a fabric while a plan runs on it: every edge serves one segment after another.
type wires struct {
	g     *fabric.Graph
	edges []port
	times [][][2]float64 // when an edge was busy: from, to
}

func newWires(g *fabric.Graph) *wires {
	return &wires{g: g, edges: make([]port, len(g.Edges)), times: make([][][2]float64, len(g.Edges))}
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
