package synth

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goccl/goccl/plan/fabric"
	"github.com/goccl/goccl/plan/internal/sets"
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
	// Reduces: the bound of an all-reduce, for a rank's share of the message. CutGBps is of the links out of, or into,
	// Parts groups of ranks; of one group if Parts is 0.
	Reduces bool
	Parts   int
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
	if t.f.starved(t.g, t.roots, len(t.g.Nodes), feed*int64(len(t.roots))) < 0 {
		return nil, false
	}
	cut = make([]bool, len(t.g.Nodes))
	for n := range cut {
		cut[n] = t.f.level[n] >= 0
	}
	return cut, true
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

// ofAllReduce computes a bound for all-reduces. For each partition of the ranks into parts:
//
//   - Contributions of each part must leave it, and results of the others enter it. So its links out, and in, pass each
//     byte of the message once or more.
//   - All links out, and all links in, pass each byte twice for each part except one. Take the first moment at which
//     some part has a result. By then each other part has sent a contribution. After it each other part must receive
//     one message or more, because it has no result yet.
//
// The links out of a part are the minimum cut between its ranks and all others, of links on some route. The
// argument does not depend on the way of the data, so plans that reduce at other ranks, in trees or by exchange, are
// bound by it too. Partitions are into single ranks, hosts, and ranks that links of some rate or more connect.
func ofAllReduce(g *fabric.Graph) *Bound {
	best := &Bound{GBps: math.Inf(1)}
	n := float64(g.Ranks())
	lower := func(parts int, gbps float64) {
		passes := 1
		if parts > 0 {
			passes = 2 * (parts - 1)
		}
		if rate := gbps / float64(passes) / n; rate < best.GBps {
			best = &Bound{GBps: rate, CutGBps: gbps, Reduces: true, Parts: parts}
		}
	}
	used := g.Used()
	for _, dir := range []*fabric.Graph{g, g.Reverse()} {
		f := newFlow(len(g.Nodes) + 2)
		from, to := len(g.Nodes), len(g.Nodes)+1
		for i, e := range dir.Edges {
			if used[i] {
				f.arc(e.From, e.To, int64(math.Round(e.GBps*unitsPerGBps)))
			}
		}
		var ends [][2]int // arcs by rank
		for r := range g.Ranks() {
			ends = append(ends, [2]int{f.arc(from, g.Node(r), 0), f.arc(g.Node(r), to, 0)})
		}
		out := func(inside, outside func(rank int) bool) float64 {
			for r, e := range ends {
				f.set(e[0], 0)
				f.set(e[1], 0)
				switch {
				case inside(r):
					f.set(e[0], endless)
				case outside(r):
					f.set(e[1], endless)
				}
			}
			return float64(f.max(from, to, endless)) / unitsPerGBps
		}
		is := func(a int) func(int) bool { return func(b int) bool { return a == b } }
		for r := 1; r < g.Ranks(); r++ { // the narrowest of all cuts is between rank 0 and another
			lower(0, out(is(0), is(r)))
			lower(0, out(is(r), is(0)))
		}
		for _, part := range partitions(g) {
			sum, parts := 0.0, slices.Max(part)+1
			for p := range parts {
				sum += out(func(r int) bool { return part[r] == p }, func(r int) bool { return part[r] != p })
			}
			lower(parts, sum)
		}
	}
	return best
}

// partitions returns partitions of the ranks into two parts or more: the part of each rank, from 0 without gaps.
func partitions(g *fabric.Graph) (out [][]int) {
	add := func(name func(rank int) int) {
		number, part := map[int]int{}, make([]int, g.Ranks())
		for r := range part {
			if _, ok := number[name(r)]; !ok {
				number[name(r)] = len(number)
			}
			part[r] = number[name(r)]
		}
		if len(number) > 1 {
			out = append(out, part)
		}
	}
	add(func(r int) int { return r })
	add(func(r int) int { return g.Nodes[g.Node(r)].Host })
	rates := map[float64]bool{}
	for _, e := range g.Edges {
		if rates[e.GBps] {
			continue
		}
		rates[e.GBps] = true
		o := sets.New(len(g.Nodes))
		for _, x := range g.Edges {
			if x.GBps >= e.GBps {
				o.Join(x.From, x.To)
			}
		}
		add(func(r int) int { return o.Of(g.Node(r)) })
	}
	return out
}

// Micros is the least time of a plan for a message of size bytes that n roots share.
func (b *Bound) Micros(size int64, n int) float64 {
	return float64(size) / float64(n) / b.GBps * 1e-3
}

// Reason says why no plan is faster.
func (b *Bound) Reason(g *fabric.Graph) string {
	if b.Pairs {
		return "the optimum of the linear program of its flows"
	}
	if b.Reduces && b.Parts > 0 {
		return fmt.Sprintf("an all-reduce of %d groups of ranks sends %d messages from group to group, "+
			"over %.4g GB/s of links", b.Parts, 2*(b.Parts-1), b.CutGBps)
	}
	if b.Reduces {
		return fmt.Sprintf("the whole message must pass %.4g GB/s of links between some ranks and the others", b.CutGBps)
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
	return fmt.Sprintf("data of %d ranks must pass %.4g GB/s of links to reach %s", b.Roots, b.CutGBps,
		strings.Join(outside, ", "))
}

// scaled is a topology with whole numbers: room on each edge for so many trees, of which every root has k.
type scaled struct {
	k     int
	room  []int64 // by edge
	share float64 // rate over the optimal rate
	unit  float64 // time in which the room of an edge is its rate
}

// maxTrees is the most trees per root: each is a chunk of the plan.
const maxTrees = 12

// enough is the share of the optimal rate that ends the search for k.
const enough = 0.9951

// scale finds a small number of trees per root whose rate is near the optimum. With k trees, a unit of time gives an
// edge room for the whole part of GBps·unit; the rate is k over the shortest unit in which k trees per root fit.
func (t *rateTest) scale(b *Bound) scaled {
	var best scaled
	for k := 1; k <= maxTrees; k++ {
		s := t.fit(k, b.GBps)
		if s.share > best.share+1e-9 {
			best = s
		}
		if best.share >= enough {
			break
		}
	}
	return best
}

// fit finds the shortest unit for k trees by bisection: more time never hurts.
func (t *rateTest) fit(k int, rate float64) scaled {
	fits := func(unit float64) bool {
		r := t.room(unit)
		_, short := t.short(int64(k), func(e int) int64 { return r[e] })
		return !short
	}
	low := float64(k) / rate
	if fits(low) {
		return scaled{k: k, room: t.room(low), share: 1, unit: low}
	}
	high := 2 * low
	for !fits(high) {
		low, high = high, 2*high
	}
	for high-low > 1e-4*low {
		if mid := (low + high) / 2; fits(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return scaled{k: k, room: t.room(high), share: float64(k) / rate / high, unit: high}
}

func (t *rateTest) room(unit float64) []int64 {
	out := make([]int64, len(t.g.Edges))
	for i, e := range t.g.Edges {
		out[i] = int64(math.Floor(e.GBps*unit + 1e-9))
	}
	return out
}

// slower gives the trees a little more time.
func (t *rateTest) slower(s scaled) scaled {
	const by = 1.03
	return scaled{k: s.k, room: t.room(s.unit * by), share: s.share / by, unit: s.unit * by}
}
