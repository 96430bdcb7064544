package programs

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

// tree is a binary tree over ranks.
type tree struct {
	root     int
	parent   []int // -1 for the root
	children [][]int
}

// inOrderTree builds a binary tree over n ranks in which even ranks are leaves: the height of rank r is the number of
// trailing zero bits of r+1, and a missing right subtree is replaced by the next lower one.
func inOrderTree(n int) tree {
	t := tree{parent: make([]int, n), children: make([][]int, n)}
	var build func(lo, hi int) int // over ranks [lo, hi)
	build = func(lo, hi int) int {
		step := 1
		for step*2 <= hi-lo {
			step *= 2
		}
		mid := lo + step - 1
		for _, part := range [2][2]int{{lo, mid}, {mid + 1, hi}} {
			if part[0] < part[1] {
				c := build(part[0], part[1])
				t.parent[c] = mid
				t.children[mid] = append(t.children[mid], c)
			}
		}
		return mid
	}
	t.root = build(0, n)
	t.parent[t.root] = -1
	return t
}

// relabel maps every rank r of t to f(r).
func (t tree) relabel(f func(int) int) tree {
	n := len(t.parent)
	out := tree{root: f(t.root), parent: make([]int, n), children: make([][]int, n)}
	for r := range n {
		out.parent[f(r)] = -1
		if t.parent[r] >= 0 {
			out.parent[f(r)] = f(t.parent[r])
		}
		for _, c := range t.children[r] {
			out.children[f(r)] = append(out.children[f(r)], f(c))
		}
	}
	return out
}

// doubleTree returns two trees in which nearly every rank is an inner node of one and a leaf of the other, so that both
// directions of its port are busy. The second is the first mirrored for even n, and shifted by one for odd n.
func doubleTree(n int) [2]tree {
	first := inOrderTree(n)
	if n%2 == 0 {
		return [2]tree{first, first.relabel(func(r int) int { return n - 1 - r })}
	}
	return [2]tree{first, first.relabel(func(r int) int { return (r + 1) % n })}
}

var _ = register(&Program{
	Name: "allreduce_tree", Collective: plan.AllReduce, MultiHost: true, Instances: 4, Peers: 2 * 3,
	Doc: "Two binary trees, each with half of the data: sums go up to the root, the result comes down, piece by piece. " +
		"2·log2(n) hops; at most 2·S bytes out of each rank.",
	spec: func(o Options) dsl.AlgoSpec { return dsl.AlgoSpec{Collective: dsl.AllReduce(o.Ranks, 2, o.InPlace)} },
	write: func(b *builder) {
		n := b.o.Ranks
		for i, t := range doubleTree(n) {
			b.writeTree(t, i*n, (i+1)*n, dsl.TB(2*i), dsl.TB(2*i+1))
		}
	},
})

// treePieces is the number of pieces of a tree's data, so that levels work at the same time.
const treePieces = 4

// edge is a pair of links between child and parent.
type edge struct{ toParent, toChild link }

// writeTree reduces chunks [from, to) up the tree on block up, and broadcasts them down the tree on block down. The
// root does both on block up.
func (b *builder) writeTree(t tree, from, to int, up, down dsl.Option) {
	n := b.o.Ranks
	open := func() []edge {
		edges := make([]edge, n)
		for r := range n {
			if p := t.parent[r]; p >= 0 {
				edges[r] = edge{toParent: b.link(p, r), toChild: b.link(r, p)}
			}
		}
		return edges
	}
	ups, downs := open(), open()

	var pieces [][2]int
	for k, count := 0, min(treePieces, to-from); k < count; k++ {
		pieces = append(pieces, [2]int{from + (to-from)*k/count, from + (to-from)*(k+1)/count})
	}
	size := to - from
	arrived := [2][]*dsl.Buffer{b.scratch(size), b.scratch(size)} // by child
	partial := b.scratch(size)
	childIndex := func(r int) int {
		if t.children[t.parent[r]][0] == r {
			return 0
		}
		return 1
	}
	for r := range n {
		rank, in, out := b.Rank(r), b.in(r), b.out(r)
		parent, children := t.parent[r], t.children[r]
		pass := func(p [2]int, tb dsl.Option) {
			sendAll(func(c int) link { return downs[c].toChild }, children,
				func(c int) dsl.Chunk { return b.out(c).Slice(p[0], p[1]) }, always(out.Slice(p[0], p[1])), tb)
		}
		downTB := down
		if parent < 0 {
			downTB = up
		}
		// A rank signals ready when it may be written to: by its children on the way up, by its parent on the way down.
		for _, c := range children {
			ups[c].toChild.Ready(up)
		}
		if parent >= 0 {
			ups[r].toParent.AwaitReady(up)
			downs[r].toParent.Ready(down)
		}
		for _, c := range children {
			downs[c].toChild.AwaitReady(downTB)
		}
		for _, p := range pieces {
			lo, hi := p[0]-from, p[1]-from
			var others []dsl.Chunk
			for i, c := range children {
				ups[c].toChild.Wait(up)
				others = append(others, arrived[i][r].Slice(lo, hi))
			}
			sum := in.Slice(p[0], p[1])
			if parent < 0 {
				b.reduceLocal(rank, out.Slice(p[0], p[1]), sum, others, up)
				pass(p, up)
				continue
			}
			if len(others) > 0 {
				b.reduceLocal(rank, partial[r].Slice(lo, hi), sum, others, up)
				sum = partial[r].Slice(lo, hi)
			}
			ups[r].toParent.Send(arrived[childIndex(r)][parent].Slice(lo, hi), sum, up)
		}
		if parent >= 0 {
			for _, p := range pieces {
				downs[r].toParent.Wait(down)
				pass(p, down)
			}
			ups[r].toParent.Drain(up)
		}
		for _, c := range children {
			downs[c].toChild.Drain(downTB)
		}
	}
}
