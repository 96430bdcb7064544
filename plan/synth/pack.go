package synth

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/goccl/goccl/plan/fabric"
)

// tree is a spanning tree over ranks, with how many of a root's k chunks go along it.
type tree struct {
	root, count int
	parent      []int // -1 at the root
	depth       []int
}

// class is a partial tree while it grows.
type class struct {
	tree
	in    []bool
	size  int
	nodes []int // in the order of their joining
}

// packer packs trees into the room between ranks. Invariant (Edmonds): for every set of ranks, the room into it is at
// least the number of trees that have not reached it yet.
type packer struct {
	n    int
	k    int64
	room [][]int64 // by rank
	left []int     // roots whose trees have not begun
	cuts *cuts
}

// pack returns k spanning trees for every root that fit into the mesh, which has no switches any more.
func (m *mesh) pack() ([]tree, error) {
	p := &packer{n: m.g.Ranks(), k: m.k, left: m.roots}
	p.room = square(p.n)
	for a := range p.n {
		for b := range p.n {
			p.room[a][b] = m.room[m.g.Node(a)][m.g.Node(b)]
		}
	}
	p.cuts = p.newCuts()
	var out []tree
	for len(p.left) > 0 {
		root := p.left[0]
		p.left = p.left[1:]
		p.cuts.f.set(p.cuts.feed[root], 0)
		p.cuts.feed[root] = -1
		trees, err := p.grow(root)
		if err != nil {
			return nil, fmt.Errorf("synth: %s: %w", m.g.Name, err)
		}
		out = append(out, trees...)
	}
	return out, nil
}

// grow builds the trees of one root, edge by edge, and splits a class where an edge has room for some of its trees
// only. Edges near the root come first, and those with the most room, so that trees are shallow.
func (p *packer) grow(root int) ([]tree, error) {
	first := &class{tree: tree{root: root, count: int(p.k), parent: slices.Repeat([]int{-1}, p.n),
		depth: make([]int, p.n)}, in: make([]bool, p.n), size: 1, nodes: []int{root}}
	first.in[root] = true
	var out []tree
	for queue := []*class{first}; len(queue) > 0; {
		c := queue[0]
		for c.size < p.n {
			x, y, many := p.edge(c, queue[1:])
			if many == 0 {
				return nil, fmt.Errorf("no edge for %d trees of rank %d, which have reached %d ranks", c.count, root, c.size)
			}
			if many < c.count {
				rest := &class{tree: tree{root: root, count: c.count - many, parent: slices.Clone(c.parent),
					depth: slices.Clone(c.depth)}, in: slices.Clone(c.in), size: c.size, nodes: slices.Clone(c.nodes)}
				c.count = many
				queue = append(queue, rest)
			}
			c.in[y], c.parent[y], c.depth[y] = true, x, c.depth[x]+1
			c.nodes = append(c.nodes, y)
			c.size++
			p.room[x][y] -= int64(many)
			p.cuts.f.set(p.cuts.room[x][y], p.room[x][y])
		}
		queue = queue[1:]
		out = append(out, c.tree)
	}
	return out, nil
}

// edge returns an edge out of c, and how many of c's trees can take it. others are the partial trees besides c and
// those that have not begun.
func (p *packer) edge(c *class, others []*class) (x, y, many int) {
	type candidate struct {
		x, y int
		room int64
	}
	var list []candidate
	for _, x := range c.nodes {
		for k := 1; k < p.n; k++ {
			if y := (x + k) % p.n; !c.in[y] && p.room[x][y] > 0 {
				list = append(list, candidate{x, y, p.room[x][y]})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(c.depth[a.x], c.depth[b.x]), -cmp.Compare(a.room, b.room))
	})
	for _, e := range list {
		if many := p.slack(c, others, e.x, e.y); many > 0 {
			return e.x, e.y, int(many)
		}
	}
	return 0, 0, 0
}

// cuts is the network in which slack looks for minimum cuts: the room between ranks, a node for all trees that have not
// begun, and at the end a node for every other partial tree of the root that grows.
type cuts struct {
	f     *flow
	room  [][]int // arcs
	begin []int   // by rank: the arc to the node of those that have not begun
	feed  []int   // by root: the arc from there, or -1
	fixed int     // arcs
}

func (p *packer) newCuts() *cuts {
	c := &cuts{f: newFlow(p.n + 1 + int(p.k)), feed: make([]int, p.n)}
	for a, row := range p.room {
		c.room = append(c.room, make([]int, p.n))
		for b, r := range row {
			c.room[a][b] = -1
			if r > 0 {
				c.room[a][b] = c.f.arc(a, b, r)
			}
		}
	}
	for r := range p.n {
		c.begin, c.feed[r] = append(c.begin, c.f.arc(r, p.n, 0)), -1
	}
	for _, r := range p.left {
		c.feed[r] = c.f.arc(p.n, r, p.k)
	}
	c.fixed = len(c.f.to)
	return c
}

// slack returns how many trees of c can take the edge from x to y and leave room for all others. A set of ranks that
// the edge enters loses one place for each. That harms only sets which c has reached already, because others want one
// tree less in exchange. The fewest places to spare are a minimum cut between x and y, in a network in which a partial
// tree counts where it has reached: then it wants no place.
func (p *packer) slack(c *class, others []*class, x, y int) int64 {
	most := min(p.room[x][y], int64(c.count))
	f := p.cuts.f
	waiting := int64(len(p.left)) * p.k
	f.set(p.cuts.begin[x], endless)
	own := p.cuts.feed[x]
	if own >= 0 { // a root at x never is on the side of y
		f.set(own, 0)
	}
	for i, o := range others {
		waiting += int64(o.count)
		f.arc(x, p.n+1+i, int64(o.count))
		for _, n := range o.nodes {
			f.arc(p.n+1+i, n, endless)
		}
	}
	spare := f.max(x, y, most+waiting) - waiting
	f.cut(p.cuts.fixed)
	f.set(p.cuts.begin[x], 0)
	if own >= 0 {
		f.set(own, p.k)
	}
	return min(most, spare)
}

// flow computes maximum flows by Dinic's algorithm. The same network serves many pairs of ends: max restores the
// capacities.
type flow struct {
	head  []int32 // first arc of each node, -1: none
	next  []int32
	to    []int32
	cap   []int64 // remaining
	whole []int64 // before any flow
	level []int32
	at    []int32
	queue []int32
}

const endless = math.MaxInt64 / 4

func newFlow(nodes int) *flow {
	return &flow{head: slices.Repeat([]int32{-1}, nodes), level: make([]int32, nodes), at: make([]int32, nodes)}
}

// arc adds an arc and returns its index; its reverse has the next index.
func (f *flow) arc(from, to int, capacity int64) int {
	id := len(f.to)
	f.to = append(f.to, int32(to), int32(from))
	f.cap = append(f.cap, capacity, 0)
	f.whole = append(f.whole, capacity, 0)
	f.next = append(f.next, f.head[from], f.head[to])
	f.head[from], f.head[to] = int32(id), int32(id+1)
	return id
}

// cut removes all arcs from index n on.
func (f *flow) cut(n int) {
	for id := len(f.to) - 1; id >= n; id-- {
		f.head[f.to[id^1]] = f.next[id]
	}
	f.to, f.cap, f.whole, f.next = f.to[:n], f.cap[:n], f.whole[:n], f.next[:n]
}

// set changes the capacity of an arc.
func (f *flow) set(arc int, capacity int64) { f.whole[arc] = capacity }

// max returns the maximum flow from s to t, or limit if it is at least that. It begins with unused capacities. After a
// flow below the limit, level is -1 at exactly the nodes on t's side of a minimum cut.
func (f *flow) max(s, t int, limit int64) int64 {
	copy(f.cap, f.whole)
	total := int64(0)
	for total < limit && f.levels(s, t) {
		copy(f.at, f.head)
		for total < limit {
			pushed := f.push(int32(s), int32(t), limit-total)
			if pushed == 0 {
				break
			}
			total += pushed
		}
	}
	return total
}

// starved returns a rank that a flow from s does not reach with as much as it needs, or -1. A root alone needs nothing.
func (f *flow) starved(g *fabric.Graph, roots []int, s int, need int64) int {
	for r := range g.Ranks() {
		if alone := len(roots) == 1 && roots[0] == r; !alone && f.max(s, g.Node(r), need) < need {
			return r
		}
	}
	return -1
}

func (f *flow) levels(s, t int) bool {
	for i := range f.level {
		f.level[i] = -1
	}
	f.level[s] = 0
	f.queue = append(f.queue[:0], int32(s))
	for i := 0; i < len(f.queue); i++ {
		n := f.queue[i]
		for a := f.head[n]; a >= 0; a = f.next[a] {
			if f.cap[a] > 0 && f.level[f.to[a]] < 0 {
				f.level[f.to[a]] = f.level[n] + 1
				f.queue = append(f.queue, f.to[a])
			}
		}
	}
	return f.level[t] >= 0
}

func (f *flow) push(n, t int32, most int64) int64 {
	if n == t {
		return most
	}
	for ; f.at[n] >= 0; f.at[n] = f.next[f.at[n]] {
		a := f.at[n]
		m := f.to[a]
		if f.cap[a] == 0 || f.level[m] != f.level[n]+1 {
			continue
		}
		if pushed := f.push(m, t, min(most, f.cap[a])); pushed > 0 {
			f.cap[a] -= pushed
			f.cap[a^1] += pushed
			return pushed
		}
	}
	return 0
}
