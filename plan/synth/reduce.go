package synth

import (
	"slices"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/fabric"
)

// mostOthers is how many operands besides the first a reduction of the portable format takes.
const mostOthers = 8

// sums writes the way of contributions to the roots, against the direction of the trees: a rank adds what its children
// have sent to its own input, and sends the sum to its parent. result returns where a root keeps a chunk.
func (p *program) sums(lanes []*lane, result func(root, from, to int) dsl.Chunk) {
	slots := p.slots()
	depth := p.forest.depth
	for i, trees := range p.lanesOf() {
		l := lanes[i]
		for _, ti := range trees {
			t := &p.forest.trees[ti]
			first := p.chunks[ti][0]
			for _, c := range p.runs(ti) {
				for u := range t.parent {
					own := p.Rank(u).Input().Slice(t.root*p.forest.k+c[0], t.root*p.forest.k+c[1])
					sum := own
					var arrived []dsl.Chunk
					for _, v := range t.children(u) {
						arrived = append(arrived, slots[pair{v, ti}].Slice(c[0]-first, c[1]-first))
					}
					at := depth - t.depth[u]
					if len(arrived) > 0 {
						sum = arrived[0]
						if u == t.root {
							sum = result(u, c[0], c[1])
						}
						l.steps[u][at].local = append(l.steps[u][at].local, p.add(u, sum, own, arrived))
					}
					if u != t.root {
						l.send(at, u, transfer{to: t.parent[u], dst: slots[pair{u, ti}].Slice(c[0]-first, c[1]-first), src: sum})
					}
				}
			}
		}
	}
}

// add returns the work that reduces own and the arrived chunks into sum.
func (p *program) add(rank int, sum, own dsl.Chunk, arrived []dsl.Chunk) localWork {
	return func(b dsl.Option) {
		acc := own
		for part := range slices.Chunk(arrived, mostOthers) {
			p.Rank(rank).Reduce(acc, part, dsl.Into(sum), b)
			acc = sum
		}
	}
}

// slots reserves scratch at the parent for every tree and child, named by the child.
func (p *program) slots() map[pair]*dsl.Buffer {
	out := map[pair]*dsl.Buffer{}
	for ti := range p.forest.trees {
		t := &p.forest.trees[ti]
		for v, u := range t.parent {
			if u >= 0 {
				out[pair{v, ti}] = p.Rank(u).Scratch(t.count)
			}
		}
	}
	return out
}

func (t *tree) children(u int) (out []int) {
	for v, p := range t.parent {
		if p == u {
			out = append(out, v)
		}
	}
	return out
}

// reduceScatter compiles a reduce-scatter over trees of the reversed graph.
func (f *forest) reduceScatter(g *fabric.Graph, name string, inPlace bool, s shape) (*plan.Plan, error) {
	p := f.begin(g, name, dsl.ReduceScatter(g.Ranks(), f.k, inPlace), s)
	lanes := p.newLanes(0, f.depth+1)
	p.sums(lanes, func(root, from, to int) dsl.Chunk { return p.Rank(root).Output().Slice(from, to) })
	p.write(lanes)
	return p.Compile()
}

// allReduce compiles a reduce-scatter over trees of the reversed graph, and an all-gather of its results. Without a
// pipeline the same thread blocks do both. In a pipeline each half has separate blocks, so that neither waits for the
// other's slices; a semaphore tells the second half that a root's sums are there.
func (f *forest) allReduce(back *forest, g *fabric.Graph, name string, inPlace bool, s shape) (*plan.Plan, error) {
	p := back.begin(g, name, dsl.AllReduce(g.Ranks(), f.k, inPlace), s)
	result := func(root, from, to int) dsl.Chunk {
		return p.Rank(root).Output().Slice(root*f.k+from, root*f.k+to)
	}
	base := func(root int) int { return root * f.k }
	lanes := p.newLanes(0, back.depth+1+f.depth)
	p.sums(lanes, result)
	all, second, level := lanes, lanes, back.depth
	if s.unit > 0 {
		second, level = p.newLanes(s.lanes, f.depth+1), 0
		all = append(all, second...)
	}
	roots := p.rootsOf()
	p.forest, p.chunks = f, f.chunks()
	p.spread(second, level, base, result)
	if s.unit > 0 {
		for i := range lanes {
			for _, r := range roots[i] {
				sem := p.Semaphore(r, 0)
				lanes[i].steps[r][back.depth].release = sem
				second[i].steps[r][0].acquire = sem
			}
		}
	}
	p.write(all)
	return p.Compile()
}

// rootsOf returns the roots of the trees of each lane, each once.
func (p *program) rootsOf() [][]int {
	out := make([][]int, p.shape.lanes)
	for i, trees := range p.lanesOf() {
		for _, ti := range trees {
			if r := p.forest.trees[ti].root; !slices.Contains(out[i], r) {
				out[i] = append(out[i], r)
			}
		}
	}
	return out
}

// spread writes the way of data from roots to all ranks, from a level of each lane on. source returns a chunk at its
// root, and base where a root's chunks begin in outputs.
func (p *program) spread(lanes []*lane, level int, base func(root int) int, source func(root, from, to int) dsl.Chunk) {
	for i, trees := range p.lanesOf() {
		l := lanes[i]
		for _, ti := range trees {
			t := &p.forest.trees[ti]
			for _, c := range p.runs(ti) {
				at := base(t.root)
				for v, u := range t.parent {
					if u < 0 {
						continue
					}
					src := p.Rank(u).Output().Slice(at+c[0], at+c[1])
					if u == t.root {
						src = source(u, c[0], c[1])
					}
					l.send(level+t.depth[u], u, transfer{to: v, dst: p.Rank(v).Output().Slice(at+c[0], at+c[1]), src: src})
				}
			}
		}
	}
}

// newLanes returns a lane for each number of the shape, on thread blocks from first on.
func (p *program) newLanes(first, levels int) []*lane {
	out := make([]*lane, p.shape.lanes)
	for i := range out {
		out[i] = &lane{block: first + i}
		for range p.g.Ranks() {
			out[i].steps = append(out[i].steps, make([]step, levels))
		}
	}
	return out
}

// gather compiles an all-gather or a broadcast.
func (f *forest) gather(g *fabric.Graph, name string, c dsl.Collective, s shape) (*plan.Plan, error) {
	p := f.begin(g, name, c, s)
	base := func(root int) int {
		if plan.Collective(c.Name) == plan.Broadcast {
			return 0
		}
		return root * f.k
	}
	lanes := p.newLanes(0, f.depth+1)
	p.spread(lanes, 0, base, func(root, from, to int) dsl.Chunk { return p.Rank(root).Input().Slice(from, to) })
	p.write(lanes)
	for _, r := range f.roots {
		in, out := p.Rank(r).Input().All(), p.Rank(r).Output().Slice(base(r), base(r)+f.k)
		if in != out {
			p.Rank(r).Copy(out, in, dsl.TB(s.lanes))
		}
	}
	return p.Compile()
}
