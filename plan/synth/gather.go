package synth

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/fabric"
)

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
		out[i] = newLane(first+i, p.g.Ranks(), levels)
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
