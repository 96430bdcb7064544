package synth

import (
	"fmt"
	"math"
	"strings"

	"github.com/goccl/goccl/plan/fabric"
)

// Bound is the best rate that any plan can have on a topology, and why.
type Bound struct {
	// GBps is the rate at which every root can send its data to all ranks at the same time. An all-gather with input S
	// takes at least S/GBps.
	GBps float64
	// Cut proves it: GPUs of these roots must send data out of this set of nodes, over edges of CutGBps in all.
	Cut     []int
	Roots   int // in the cut
	CutGBps float64
	// Pairs: GBps is the rate of every pair of ranks at the same time, the optimum of a linear program, without a cut.
	Pairs bool
	Twice bool // data passes cuts twice: first contributions, then results
}

// unitsPerGBps is the resolution of rates in exact computations.
const unitsPerGBps = 1000

// Broadcast rates ask whether each root can send at rate p/q at the same time: whether a source that feeds every root p
// can send p·roots to each rank, with links of capacity q times theirs.
type rateTest struct {
	g     *fabric.Graph
	roots []int // ranks
	f     *flow
	links []int // arcs of edges
	feeds []int // arcs from the source to roots
	caps  []int64
}

func newRateTest(g *fabric.Graph, roots []int) *rateTest {
	t := &rateTest{g: g, roots: roots, f: newFlow(len(g.Nodes) + 1)}
	for _, e := range g.Edges {
		t.caps = append(t.caps, int64(math.Round(e.GBps*unitsPerGBps)))
		t.links = append(t.links, t.f.arc(e.From, e.To, 0))
	}
	for _, r := range roots {
		t.feeds = append(t.feeds, t.f.arc(len(g.Nodes), g.Node(r), 0))
	}
	return t
}

// short looks for a rank that cannot get all. It returns the side of a minimum cut that holds the source.
func (t *rateTest) short(feed int64, capacity func(edge int) int64) (cut []bool, ok bool) {
	for i, a := range t.links {
		t.f.set(a, capacity(i))
	}
	for _, a := range t.feeds {
		t.f.set(a, feed)
	}
	need := feed * int64(len(t.roots))
	for r := range t.g.Ranks() {
		if len(t.roots) == 1 && t.roots[0] == r {
			continue
		}
		if t.f.max(len(t.g.Nodes), t.g.Node(r), need) < need {
			cut = make([]bool, len(t.g.Nodes))
			for n := range cut {
				cut[n] = t.f.level[n] >= 0
			}
			return cut, true
		}
	}
	return nil, false
}

// Optimal computes the bound for the given roots: all ranks for an all-gather, one for a broadcast. It starts with a
// rate that is too high; a cut that is too narrow for a rate gives the next lower rate, until there is none (Newton's
// method for fractions).
func Optimal(g *fabric.Graph, roots []int) (*Bound, error) {
	t := newRateTest(g, roots)
	p, q := int64(1), int64(1)
	for _, c := range t.caps {
		p += c
	}
	var b *Bound
	for range 10_000 {
		cut, found := t.short(p, func(e int) int64 { return q * t.caps[e] })
		if !found {
			return b, nil
		}
		out, inside := int64(0), int64(0)
		for i, e := range g.Edges {
			if cut[e.From] && !cut[e.To] {
				out += t.caps[i]
			}
		}
		for _, r := range roots {
			if cut[g.Node(r)] {
				inside++
			}
		}
		if out == 0 {
			return nil, fmt.Errorf("synth: %s: %w: some ranks cannot be reached from others", g.Name, fabric.ErrInvalid)
		}
		d := gcd(out, inside)
		p, q = out/d, inside/d
		b = &Bound{GBps: float64(p) / float64(q) / unitsPerGBps, Roots: int(inside), CutGBps: float64(out) / unitsPerGBps}
		for n, in := range cut {
			if in {
				b.Cut = append(b.Cut, n)
			}
		}
	}
	return nil, fmt.Errorf("synth: %s: no optimal rate after 10,000 cuts", g.Name)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// with is the bound of an all-reduce as a reduce-scatter, which b's counterpart bounds, and an all-gather: the same cut
// must pass the data twice.
func (b *Bound) with(back *Bound) *Bound {
	both := *b
	both.GBps = 1 / (1/b.GBps + 1/back.GBps)
	both.Twice = true
	return &both
}

// share is what plans for both halves reach together of the bound.
func (b *Bound) share(s scaled, back *Bound, t scaled) float64 {
	return (1/b.GBps + 1/back.GBps) / (1/(b.GBps*s.share) + 1/(back.GBps*t.share))
}

// Reason says why no plan is faster.
func (b *Bound) Reason(g *fabric.Graph) string {
	if b.Pairs {
		return "the optimum of the linear program of its flows"
	}
	inside := map[int]bool{}
	for _, n := range b.Cut {
		inside[n] = true
	}
	var outside []string
	ranks := 0
	for r := range g.Ranks() {
		if n := g.Node(r); !inside[n] {
			ranks++
			outside = append(outside, g.Nodes[n].Name)
		}
	}
	if ranks > 4 {
		outside = append(outside[:3], "…")
	}
	times := ""
	if b.Twice {
		times = ", once as contributions and once as results"
	}
	return fmt.Sprintf("data of %d ranks must pass %.4g GB/s of links to reach %s%s", b.Roots, b.CutGBps,
		strings.Join(outside, ", "), times)
}
