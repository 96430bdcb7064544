package synth

import (
	"testing"

	"github.com/goccl/goccl/plan"
)

// For little data trees are as deep as the topology demands: three hops round the ring, two between hosts, one on PCIe.
// Every root has one, an image of the tree of its orbit. The plans are faster than what ships where that does not know
// the topology.
func TestShallowTrees(t *testing.T) {
	for _, c := range []struct {
		name  string
		depth int
		wins  bool
	}{{"ring-6", 3, true}, {"broken-nvlink", 1, false}, {"pcie-8", 1, false}, {"dgx-h100x2", 2, true}} {
		g := example(t, c.name)
		o := Options{Graph: g, Collective: plan.AllGather, Size: 16 << 10, Machine: machine(t)}
		m := *o.Machine
		m.Fabric = g
		f := newShallow(o, &m, ranks(g.Ranks()))
		if f.depth != c.depth || len(f.trees) != g.Ranks() {
			t.Errorf("%s: %d trees of depth %d, want %d of depth %d", c.name, len(f.trees), f.depth, g.Ranks(), c.depth)
		}
		for r, tr := range f.trees {
			for v, u := range tr.parent {
				if tr.root != r || (u < 0) != (v == r) || u >= 0 && tr.depth[v] != tr.depth[u]+1 {
					t.Fatalf("%s: rank %d has parent %d in the tree of %d", c.name, v, u, tr.root)
				}
			}
		}
		r, err := Run(o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Best.Shipped == c.wins {
			t.Errorf("%s: the fastest is %s", c.name, r.Best.Name)
		}
	}
}
