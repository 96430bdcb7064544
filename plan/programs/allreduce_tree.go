package programs

import (
	"slices"

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

// treeRun is one tree of an all-reduce over trees: it reduces chunks [from, to) up the tree on block up, and broadcasts
// them down the tree on block down. The root does both on block up.
type treeRun struct {
	*builder
	t          tree
	from       int
	up, down   dsl.Option
	ups, downs []edge           // by child
	pieces     [][2]int         // of the chunks
	arrived    [2][]*dsl.Buffer // by child of a rank, then rank
	partial    []*dsl.Buffer
}

// edges opens the links between each rank and its parent.
func (b *builder) edges(t tree) []edge {
	edges := make([]edge, b.o.Ranks)
	for r, p := range t.parent {
		if p >= 0 {
			edges[r] = edge{toParent: b.link(p, r), toChild: b.link(r, p)}
		}
	}
	return edges
}

func (b *builder) writeTree(t tree, from, to int, up, down dsl.Option) {
	w := &treeRun{builder: b, t: t, from: from, up: up, down: down, ups: b.edges(t), downs: b.edges(t)}
	for k, count := 0, min(treePieces, to-from); k < count; k++ {
		w.pieces = append(w.pieces, [2]int{from + (to-from)*k/count, from + (to-from)*(k+1)/count})
	}
	w.arrived[0], w.arrived[1], w.partial = b.scratch(to-from), b.scratch(to-from), b.scratch(to-from)
	for r := range b.o.Ranks {
		w.rank(r)
	}
}

func (w *treeRun) rank(r int) {
	parent, children, down := w.t.parent[r], w.t.children[r], w.down
	if parent < 0 {
		down = w.up
	}
	// A rank signals ready when it may be written to: by its children on the way up, by its parent on the way down.
	for _, c := range children {
		w.ups[c].toChild.Ready(w.up)
	}
	if parent >= 0 {
		w.ups[r].toParent.AwaitReady(w.up)
		w.downs[r].toParent.Ready(w.down)
	}
	for _, c := range children {
		w.downs[c].toChild.AwaitReady(down)
	}
	for _, p := range w.pieces {
		w.reduce(r, p)
	}
	if parent >= 0 {
		for _, p := range w.pieces {
			w.downs[r].toParent.Wait(w.down)
			w.pass(r, p, w.down)
		}
		w.ups[r].toParent.Drain(w.up)
	}
	for _, c := range children {
		w.downs[c].toChild.Drain(down)
	}
}

// reduce adds what the children of a rank send of a piece, and sends the sum to the parent; the root passes it down.
func (w *treeRun) reduce(r int, p [2]int) {
	lo, hi := p[0]-w.from, p[1]-w.from
	var others []dsl.Chunk
	for i, c := range w.t.children[r] {
		w.ups[c].toChild.Wait(w.up)
		others = append(others, w.arrived[i][r].Slice(lo, hi))
	}
	sum, parent := w.in(r).Slice(p[0], p[1]), w.t.parent[r]
	if parent < 0 {
		w.reduceLocal(w.Rank(r), w.out(r).Slice(p[0], p[1]), sum, others, w.up)
		w.pass(r, p, w.up)
		return
	}
	if len(others) > 0 {
		w.reduceLocal(w.Rank(r), w.partial[r].Slice(lo, hi), sum, others, w.up)
		sum = w.partial[r].Slice(lo, hi)
	}
	child := slices.Index(w.t.children[parent], r)
	w.ups[r].toParent.Send(w.arrived[child][parent].Slice(lo, hi), sum, w.up)
}

// pass sends the result of a piece to the children of a rank.
func (w *treeRun) pass(r int, p [2]int, tb dsl.Option) {
	sendAll(func(c int) link { return w.downs[c].toChild }, w.t.children[r],
		func(c int) dsl.Chunk { return w.out(c).Slice(p[0], p[1]) }, always(w.out(r).Slice(p[0], p[1])), tb)
}
