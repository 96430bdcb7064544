package synth

import (
	"math"
	"slices"

	"github.com/goccl/goccl/plan/fabric"
	"github.com/goccl/goccl/plan/internal/sets"
)

// symmetry is a group of permutations of ranks that keep every link of a topology in place, given by generators. A
// search need only look at one of each orbit.
type symmetry struct {
	ranks      int
	generators [][]int // images of ranks
}

// newSymmetry looks for automorphisms of the graph: first those that move rank 0, then those that leave it.
func newSymmetry(g *fabric.Graph) *symmetry {
	a, s := newAutomorphisms(g), &symmetry{ranks: g.Ranks()}
	move, leave := sets.New(s.ranks), sets.New(s.ranks)
	for x := 1; x < s.ranks; x++ {
		if move.Of(0) != move.Of(x) {
			s.add(g, a.find([]int{g.Node(0)}, []int{g.Node(x)}), move)
		}
	}
	for x := 2; x < s.ranks; x++ {
		for y := 1; y < x && leave.Of(1) != leave.Of(x); y++ {
			if leave.Of(x) != leave.Of(y) && s.add(g, a.find([]int{g.Node(0), g.Node(x)}, []int{g.Node(0), g.Node(y)}), leave) {
				break
			}
		}
	}
	return s
}

// add adds a permutation of nodes, unless it is nil, and joins the orbits of the ranks that it maps to each other.
func (s *symmetry) add(g *fabric.Graph, nodes []int, orbits sets.Sets) bool {
	if nodes == nil {
		return false
	}
	p := make([]int, s.ranks)
	for r := range p {
		p[r] = g.Rank(nodes[g.Node(r)])
		orbits.Join(r, p[r])
	}
	s.generators = append(s.generators, p)
	return true
}

// automorphisms finds permutations of nodes by refining colours: nodes that a permutation exchanges have equal colours.
type automorphisms struct {
	g     *fabric.Graph
	kind  []int
	links []uint64 // by edge: rate and latency
}

func newAutomorphisms(g *fabric.Graph) *automorphisms {
	a := &automorphisms{g: g}
	for _, e := range g.Edges {
		a.links = append(a.links, mix(math.Float64bits(e.GBps))^math.Float64bits(e.Micros))
	}
	kinds := map[fabric.Kind]int{fabric.GPU: 0, fabric.Switch: 1, fabric.NIC: 2}
	for _, n := range g.Nodes {
		a.kind = append(a.kind, kinds[n.Kind])
	}
	return a
}

// find returns a permutation that maps the nodes from to the nodes to, or nil if it finds none. Where several images
// are possible it takes the first; in symmetric topologies any is right.
func (a *automorphisms) find(from, to []int) []int {
	from, to = slices.Clone(from), slices.Clone(to)
	for {
		left, right := a.colours(from), a.colours(to)
		byColour := map[uint64][]int{}
		for n, c := range right {
			byColour[c] = append(byColour[c], n)
		}
		count := map[uint64]int{}
		for _, c := range left {
			count[c]++
		}
		pin := -1
		for n, c := range left {
			if count[c] != len(byColour[c]) {
				return nil
			}
			if count[c] > 1 && pin < 0 {
				pin = n
			}
		}
		if pin >= 0 {
			from, to = append(from, pin), append(to, byColour[left[pin]][0])
			continue
		}
		p := make([]int, len(left))
		for n, c := range left {
			p[n] = byColour[c][0]
		}
		if !a.keeps(p) {
			return nil
		}
		return p
	}
}

// keeps reports whether a permutation maps every edge to an equal one, and ranks of a host to ranks of a host.
func (a *automorphisms) keeps(p []int) bool {
	type key struct {
		from, to int
		gbps, us float64
	}
	count := map[key]int{}
	for _, e := range a.g.Edges {
		count[key{e.From, e.To, e.GBps, e.Micros}]++
	}
	for _, e := range a.g.Edges {
		k := key{p[e.From], p[e.To], e.GBps, e.Micros}
		if count[k]--; count[k] < 0 {
			return false
		}
	}
	host := map[int]int{}
	for n, m := range p {
		h := a.g.Nodes[n].Host
		if to, ok := host[h]; ok && to != a.g.Nodes[m].Host {
			return false
		}
		host[h] = a.g.Nodes[m].Host
	}
	return true
}

// colours gives nodes the same colour if nothing tells them apart: kind, pins, links and the colours behind them, and
// so on until that tells no more apart. Colours are hashes, equal in equal pictures; keeps finds a collision.
func (a *automorphisms) colours(pins []int) []uint64 {
	colour := make([]uint64, len(a.kind))
	for n, k := range a.kind {
		colour[n] = mix(uint64(k))
	}
	for i, n := range pins {
		colour[n] = mix(uint64(3 + i))
	}
	next := make([]uint64, len(colour))
	for classes := 0; ; {
		copy(next, colour)
		for i, e := range a.g.Edges {
			next[e.From] += mix(colour[e.To] ^ a.links[i])
			next[e.To] += mix(colour[e.From] + a.links[i])
		}
		for n := range next {
			next[n] = mix(next[n])
		}
		distinct := map[uint64]bool{}
		for _, c := range next {
			distinct[c] = true
		}
		if len(distinct) == classes {
			return colour
		}
		classes = len(distinct)
		colour, next = next, colour
	}
}

// mix spreads the bits of a number (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
