package synth

import (
	"cmp"
	"math"
	"slices"

	"github.com/goccl/goccl/plan/fabric"
	"github.com/goccl/goccl/plan/simulate"
)

// triedEdges bounds the search for the trees of an orbit of roots.
const triedEdges = 20_000

// orbit is a root and the permutations that map it to all roots that are like it; the first is the identity.
type orbit struct {
	root   int
	images [][]int
}

// shallow searches trees for little data, one per root: few levels, and within each level links that are not crowded
// (SCCL). A tree is looked for once for each orbit of roots. The symmetry of the topology makes the others, so an edge
// of the tree stands for its images. It is a bounded depth-first search: ranks join in the order of their distance,
// each below the rank that costs least first.
type shallow struct {
	g      *fabric.Graph
	m      *simulate.Machine
	n      int
	chunk  float64     // bytes of a tree
	load   [][]float64 // µs by level, then edge; behind the edges, the proxies of ranks
	orbit  orbit
	order  []int // ranks but the root
	parent []int
	depth  []int

	best       []int // parents
	bestDepth  []int
	cost       float64
	triedEdges int
}

// newShallow returns the forest.
func newShallow(o Options, m *simulate.Machine, roots []int) *forest {
	s := &shallow{g: o.Graph, m: m, n: o.Graph.Ranks(), chunk: float64(o.Size)}
	if len(roots) > 1 {
		s.chunk /= float64(s.n)
	}
	for range s.n {
		s.load = append(s.load, make([]float64, len(s.g.Edges)+s.n))
	}
	var trees []tree
	for _, s.orbit = range orbitsOf(s.g, roots) {
		s.search()
		for _, p := range s.orbit.images {
			t := tree{root: p[s.orbit.root], count: 1, parent: make([]int, s.n), depth: make([]int, s.n)}
			t.parent[t.root] = -1
			for _, v := range s.order {
				t.parent[p[v]], t.depth[p[v]] = p[s.best[v]], s.bestDepth[v]
			}
			trees = append(trees, t)
		}
		for _, v := range s.order { // the next orbit finds these links busy
			s.add(s.best[v], v, s.bestDepth[v]-1, 1)
		}
	}
	slices.SortFunc(trees, func(a, b tree) int { return cmp.Compare(a.root, b.root) })
	return newForest(1, roots, trees)
}

// orbitsOf divides roots into those that symmetries map to each other.
func orbitsOf(g *fabric.Graph, roots []int) (out []orbit) {
	identity := make([]int, g.Ranks())
	for i := range identity {
		identity[i] = i
	}
	if len(roots) == 1 {
		return []orbit{{roots[0], [][]int{identity}}}
	}
	generators := newSymmetry(g).generators
	seen := make([]bool, g.Ranks())
	for _, r := range roots {
		if seen[r] {
			continue
		}
		seen[r] = true
		images := [][]int{identity}
		for i := 0; i < len(images); i++ {
			for _, by := range generators {
				if to := by[images[i][r]]; !seen[to] {
					seen[to] = true
					p := make([]int, len(identity))
					for x := range p {
						p[x] = by[images[i][x]]
					}
					images = append(images, p)
				}
			}
		}
		out = append(out, orbit{r, images})
	}
	return out
}

// search finds the tree of the current orbit.
func (s *shallow) search() {
	distance := s.distances(s.orbit.root)
	s.order = s.order[:0]
	for r := range s.n {
		if r != s.orbit.root {
			s.order = append(s.order, r)
		}
	}
	slices.SortStableFunc(s.order, func(a, b int) int { return cmp.Compare(distance[a], distance[b]) })
	s.parent, s.depth = slices.Repeat([]int{-1}, s.n), make([]int, s.n)
	s.cost, s.triedEdges = math.Inf(1), triedEdges
	s.extend(0)
}

// distances counts hops between ranks.
func (s *shallow) distances(root int) []int {
	d := slices.Repeat([]int{math.MaxInt}, s.n)
	d[root] = 0
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for v := range s.n {
			if route, _ := s.g.Route(queue[0], v); len(route) > 0 && d[v] == math.MaxInt {
				d[v] = d[queue[0]] + 1
				queue = append(queue, v)
			}
		}
	}
	return d
}

// extend lets the i-th rank join below each rank that is in, the cheapest first.
func (s *shallow) extend(i int) {
	now := s.total()
	if now >= s.cost {
		return
	}
	if i == len(s.order) {
		s.cost, s.best, s.bestDepth = now, slices.Clone(s.parent), slices.Clone(s.depth)
		return
	}
	v := s.order[i]
	type candidate struct {
		u    int
		cost float64
	}
	var list []candidate
	for _, u := range append([]int{s.orbit.root}, s.order[:i]...) {
		if route, _ := s.g.Route(u, v); len(route) == 0 {
			continue
		}
		s.add(u, v, s.depth[u], 1)
		list = append(list, candidate{u, s.total()})
		s.add(u, v, s.depth[u], -1)
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(a.cost, b.cost) })
	for _, c := range list {
		if s.triedEdges--; s.triedEdges < 0 && s.best != nil {
			return
		}
		s.add(c.u, v, s.depth[c.u], 1)
		s.parent[v], s.depth[v] = c.u, s.depth[c.u]+1
		s.extend(i + 1)
		s.add(c.u, v, s.depth[c.u], -1)
		s.parent[v] = -1
	}
}

// add puts the edge from u to v and its images on the links of a level, or takes it off.
func (s *shallow) add(u, v, level int, sign float64) {
	load := s.load[level]
	for _, p := range s.orbit.images {
		route, us := s.g.Route(p[u], p[v])
		for _, e := range route {
			load[e] += sign * s.chunk / s.g.Edges[e].GBps * 1e-3
		}
		if !s.g.SameHost(p[u], p[v]) {
			load[len(s.g.Edges)+p[u]] += sign * (s.m.Rail.Proxy + us/float64(s.n))
		}
	}
}

// total is the time of all levels: at each, the busiest link and the signal.
func (s *shallow) total() (sum float64) {
	for _, load := range s.load {
		if most := slices.Max(load); most > 1e-9 {
			sum += most + s.m.Flag + s.m.Fence + 4*s.m.Op
		}
	}
	return sum
}
