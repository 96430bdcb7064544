package synth

import (
	"slices"

	"github.com/goccl/goccl/plan/fabric"
)

// mesh is the room between pairs of nodes. While switches are removed it has all nodes of the graph, at the end room
// between GPUs alone.
type mesh struct {
	g     *fabric.Graph
	roots []int
	k     int64
	room  [][]int64 // by node
	gone  []bool    // switches that have been removed
}

func newMesh(g *fabric.Graph, roots []int, s scaled) *mesh {
	m := &mesh{g: g, roots: roots, k: int64(s.k), gone: make([]bool, len(g.Nodes))}
	m.room = square(len(g.Nodes))
	for i, e := range g.Edges {
		m.room[e.From][e.To] += s.room[i]
	}
	return m
}

func square(n int) [][]int64 {
	out := make([][]int64, n)
	for i := range out {
		out[i] = make([]int64, n)
	}
	return out
}

// fits reports whether k trees per root still fit: whether every rank can get k from every root at the same time.
func (m *mesh) fits() bool {
	f := newFlow(len(m.room) + 1)
	for a, row := range m.room {
		for b, c := range row {
			if c > 0 {
				f.arc(a, b, c)
			}
		}
	}
	for _, r := range m.roots {
		f.arc(len(m.room), m.g.Node(r), m.k)
	}
	return f.starved(m.g, m.roots, len(m.room), m.k*int64(len(m.roots))) < 0
}

// split removes all switches and NICs. What entered a switch and left it becomes room between its neighbours, so that
// every rank can still get as much as before. Such a splitting exists if as much enters every switch as leaves it
// (Bang-Jensen, Frank, Jackson, 1995), and step 3 finds it.
//
//  1. a node with two neighbours passes everything on
//  2. all switches together: room is spread over other neighbours with equal links
//  3. if that loses rate, switch by switch: dropped, spread, or pair by pair with as much as loses nothing
func (m *mesh) split() {
	var switches []int
	for n := range m.g.Nodes {
		if m.g.Rank(n) >= 0 {
			continue
		}
		if list := m.neighbours(n); len(list) == 2 {
			a, b := list[0], list[1]
			m.room[a][b] += min(m.room[a][n], m.room[n][b])
			m.room[b][a] += min(m.room[b][n], m.room[n][a])
			m.remove(n)
			continue
		}
		switches = append(switches, n)
	}
	// Switches without GPUs first: their neighbours are other switches.
	slices.SortStableFunc(switches, func(a, b int) int { return m.gpus(a) - m.gpus(b) })
	before := m.clone()
	for _, n := range switches {
		m.spread(n, len(m.g.Nodes))
	}
	if m.fits() {
		return
	}
	m.room, m.gone = before.room, before.gone
	for _, n := range switches {
		m.splitOne(n)
	}
}

func (m *mesh) splitOne(n int) {
	before := m.clone()
	for _, try := range []func(){func() { m.remove(n) }, func() { m.spread(n, len(m.g.Nodes)) },
		func() { m.spread(n, 1) }} {
		try()
		if m.fits() {
			return
		}
		m.room, m.gone = before.clone().room, slices.Clone(before.gone)
	}
	m.pairs(n)
}

func (m *mesh) clone() *mesh {
	c := *m
	c.room, c.gone = make([][]int64, len(m.room)), slices.Clone(m.gone)
	for i, row := range m.room {
		c.room[i] = slices.Clone(row)
	}
	return &c
}

func (m *mesh) remove(n int) {
	for a := range m.room {
		m.room[a][n], m.room[n][a] = 0, 0
	}
	m.gone[n] = true
}

// neighbours returns the nodes with room to or from n.
func (m *mesh) neighbours(n int) (out []int) {
	for a := range m.room {
		if m.room[a][n] > 0 || m.room[n][a] > 0 {
			out = append(out, a)
		}
	}
	return out
}

func (m *mesh) gpus(n int) int {
	return len(slices.DeleteFunc(m.neighbours(n), func(a int) bool { return m.g.Rank(a) < 0 }))
}

// spread replaces a switch by room from each neighbour to the next `shifts` neighbours with links of the same room, in
// a circle, as far as the switch is on their way. What other neighbours could send is lost.
func (m *mesh) spread(n, shifts int) {
	groups := map[int64][]int{}
	for _, a := range m.neighbours(n) {
		if c := m.room[a][n]; c == m.room[n][a] {
			groups[c] = append(groups[c], a)
		}
	}
	for c, list := range groups {
		into := map[int]int64{}
		for i, a := range list {
			var to []int
			for s := 1; s < len(list) && len(to) < max(shifts, 1); s++ {
				if b := list[(i+s)%len(list)]; m.onTheWay(a, n, b) {
					to = append(to, b)
				}
			}
			for s, b := range to {
				part := c / int64(len(to))
				if int64(s) < c%int64(len(to)) {
					part++
				}
				part = min(part, c-into[b])
				into[b] += part
				m.room[a][b] += part
			}
		}
	}
	m.remove(n)
}

// onTheWay reports whether transfers from a to b go through n. Between GPUs the graph's route decides.
func (m *mesh) onTheWay(a, n, b int) bool {
	if m.g.Rank(a) < 0 || m.g.Rank(b) < 0 {
		return true
	}
	route, _ := m.g.Route(m.g.Rank(a), m.g.Rank(b))
	return slices.ContainsFunc(route, func(e int32) bool { return m.g.Edges[e].To == n })
}

// pairs splits a switch exactly: for every pair of an incoming and an outgoing link, as much as loses nothing.
func (m *mesh) pairs(n int) {
	list := m.neighbours(n)
	for s := 1; s < 2*len(list); s++ { // pairs that it is on the way of come first
		for i, a := range list {
			b := list[(i+s)%len(list)]
			if a == b || m.onTheWay(a, n, b) != (s < len(list)) {
				continue
			}
			low, high := int64(0), min(m.room[a][n], m.room[n][b])
			move := func(by int64) {
				m.room[a][n] -= by
				m.room[n][b] -= by
				m.room[a][b] += by
			}
			for low < high {
				mid := (low + high + 1) / 2
				move(mid)
				if m.fits() {
					low = mid
				} else {
					high = mid - 1
				}
				move(-mid)
			}
			move(low)
		}
	}
	m.remove(n)
}
