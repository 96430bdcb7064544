package synth

import (
	"math"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/test/interp"
)

// The linear program finds the rate that the narrowest cut allows, which the test looks for among all sets of nodes: s
// ranks on one side and n-s on the other exchange s·(n-s) parts each way.
func TestExchangeReachesTheNarrowestCut(t *testing.T) {
	for _, name := range []string{"ring-6", "pcie-8", "broken-nvlink"} {
		g := example(t, name)
		want := math.Inf(1)
		for set := range 1 << len(g.Nodes) {
			inside, out := 0, 0.0
			for r := range g.Ranks() {
				inside += set >> g.Node(r) & 1
			}
			for _, e := range g.Edges {
				if set>>e.From&1 == 1 && set>>e.To&1 == 0 {
					out += e.GBps
				}
			}
			if pairs := inside * (g.Ranks() - inside); pairs > 0 {
				want = min(want, out/float64(pairs))
			}
		}
		x, err := newExchange(g)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(x.rate-want) > 1e-6*want || x.rateOf(x.k, x.count) < 0.99*want {
			t.Errorf("%s: %g GB/s, in whole chunks %g, the narrowest cut allows %g", name, x.rate, x.rateOf(x.k, x.count), want)
		}
		sent := make([]int, g.Ranks()*g.Ranks())
		for i, p := range x.paths {
			sent[p.from*g.Ranks()+p.to] += x.count[i]
			at := p.from
			for _, h := range p.hops {
				if h.from != at {
					t.Fatalf("%s: path of %d to %d has a gap: %v", name, p.from, p.to, p.hops)
				}
				at = h.to
			}
			if at != p.to {
				t.Fatalf("%s: path of %d to %d ends at %d", name, p.from, p.to, at)
			}
		}
		for i, n := range sent {
			if i/g.Ranks() != i%g.Ranks() && n != x.k {
				t.Errorf("%s: %d of %d chunks from %d to %d", name, n, x.k, i/g.Ranks(), i%g.Ranks())
			}
		}
	}
}

// Over a ring chunks pass through other ranks, over two hosts they go along rails.
func TestExchangePlans(t *testing.T) {
	for _, name := range []string{"ring-6", "dgx-h100x2"} {
		g := example(t, name)
		r, err := Run(Options{Graph: g, Collective: plan.AllToAll, Size: 1 << 20, Machine: machine(t), Only: true})
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(g.Ranks())
		if g.Hosts() == 1 {
			if err := interp.CheckCollective(r.Plan, []uint64{256 * n * n, 40 * n}, 7); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if share := rate(r) / r.Bound.GBps; share < 0.99 || share > 1.0001 {
			t.Errorf("%s: %s has %.2f %% of the best rate", name, r.Best.Name, 100*share)
		}
	}
}
