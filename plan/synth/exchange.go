package synth

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/fabric"
	"github.com/goccl/goccl/plan/internal/sets"
)

// path is the way of a part of what rank from has for rank to.
type path struct {
	from, to int
	share    float64
	hops     []pair
}

// exchange is an all-to-all: every rank sends to every other rank along paths, perhaps through other ranks.
type exchange struct {
	g     *fabric.Graph
	rate  float64 // GB/s of every pair at the same time
	paths []path
	k     int   // chunks of a pair
	count []int // of them, by path
	depth int
}

// flows is the linear program of an all-to-all: a flow from each source over each hop, so that every other rank keeps
// the data addressed to it, and no link carries more than its rate. The pairs' rate is to be as large as possible.
// Flows that a symmetry of the topology maps to each other are one variable, because the mean of optimal flows is
// optimal.
type flows struct {
	g      *fabric.Graph
	n      int
	orbits sets.Sets // of source, from, to
	pairs  sets.Sets // of source, rank
	column []int     // by representative: its variable, -1: no such hop
	count  int
	value  []float64
}

func (f *flows) at(s, a, b int) int { return (s*f.n+a)*f.n + b }

func newFlows(g *fabric.Graph) *flows {
	f := &flows{g: g, n: g.Ranks()}
	f.orbits, f.pairs = sets.New(f.n*f.n*f.n), sets.New(f.n*f.n)
	for _, p := range newSymmetry(g).generators {
		for s := range f.n {
			for a := range f.n {
				f.pairs.Join(s*f.n+a, p[s]*f.n+p[a])
				for b := range f.n {
					f.orbits.Join(f.at(s, a, b), f.at(p[s], p[a], p[b]))
				}
			}
		}
	}
	f.column = make([]int, f.n*f.n*f.n)
	for i := range f.column {
		f.column[i] = -1
		if s, a, b := i/f.n/f.n, i/f.n%f.n, i%f.n; f.orbits.Of(i) == i && a != b && b != s {
			if route, _ := g.Route(a, b); len(route) > 0 {
				f.column[i] = f.count
				f.count++
			}
		}
	}
	return f
}

// variable returns the column of a flow, or -1.
func (f *flows) variable(s, a, b int) int { return f.column[f.orbits.Of(f.at(s, a, b))] }

// solve returns the optimal rate of a pair.
func (f *flows) solve() (float64, error) {
	var rows [][]float64
	var limits []float64
	rate := f.count // the column of the pairs' rate
	for s := range f.n {
		for v := range f.n {
			if s == v || f.pairs.Of(s*f.n+v) != s*f.n+v {
				continue
			}
			row := make([]float64, f.count+1) // what leaves, and what stays, is at most what enters
			row[rate] = 1
			for u := range f.n {
				if c := f.variable(s, v, u); c >= 0 && u != v {
					row[c]++
				}
				if c := f.variable(s, u, v); c >= 0 && u != v {
					row[c]--
				}
			}
			rows, limits = append(rows, row), append(limits, 0)
		}
	}
	seen := map[string]bool{}
	for e, row := range f.loads() {
		key := fmt.Sprint(row, f.g.Edges[e].GBps)
		if seen[key] || !slices.ContainsFunc(row, func(x float64) bool { return x > 0 }) {
			continue
		}
		seen[key] = true
		rows, limits = append(rows, append(row, 0)), append(limits, f.g.Edges[e].GBps)
	}
	m, n := len(rows), f.count+1
	a := mat.NewDense(m, n+m, nil)
	basis := make([]int, m)
	for i, row := range rows {
		for j, x := range row {
			a.Set(i, j, x)
		}
		a.Set(i, n+i, 1)
		basis[i] = n + i
	}
	cost := make([]float64, n+m)
	for i := range f.column { // among equal rates the fewest hops
		if c := f.column[f.orbits.Of(i)]; c >= 0 {
			cost[c] += 1e-6 / float64(len(f.column))
		}
	}
	cost[rate] = -1
	_, x, err := lp.Simplex(cost, a, limits, 1e-10, basis)
	if err != nil {
		return 0, fmt.Errorf("synth: %s: linear program of an all-to-all: %w", f.g.Name, err)
	}
	f.value = x[:f.count]
	return x[rate], nil
}

// loads returns for every edge how often each variable crosses it.
func (f *flows) loads() [][]float64 {
	out := make([][]float64, len(f.g.Edges))
	for e := range out {
		out[e] = make([]float64, f.count)
	}
	for a := range f.n {
		for b := range f.n {
			if a == b {
				continue
			}
			route, _ := f.g.Route(a, b)
			for s := range f.n {
				if c := f.variable(s, a, b); c >= 0 {
					for _, e := range route {
						out[e][c]++
					}
				}
			}
		}
	}
	return out
}

// newExchange solves the linear program and divides its flows into paths.
func newExchange(g *fabric.Graph) (*exchange, error) {
	f := newFlows(g)
	rate, err := f.solve()
	if err != nil {
		return nil, err
	}
	if rate < 1e-6 {
		return nil, fmt.Errorf("synth: %s: %w: some ranks cannot be reached from others", g.Name, fabric.ErrInvalid)
	}
	x := &exchange{g: g, rate: rate}
	for s := range f.n {
		x.paths = append(x.paths, f.paths(s, rate)...)
	}
	x.round()
	for i, p := range x.paths {
		if x.count[i] > 0 {
			x.depth = max(x.depth, len(p.hops))
		}
	}
	return x, nil
}

// paths divides the flow of a source into paths: from each target back to the source, each time along the hop with the
// most flow left.
func (f *flows) paths(s int, rate float64) (out []path) {
	left := make([][]float64, f.n)
	for a := range left {
		left[a] = make([]float64, f.n)
		for b := range left[a] {
			if c := f.variable(s, a, b); c >= 0 && a != b {
				left[a][b] = f.value[c]
			}
		}
	}
	for d := range f.n {
		if d == s {
			continue
		}
		for want := rate; want > 1e-6*rate; {
			p := path{from: s, to: d, share: want}
			on := map[int]bool{d: true}
			for at := d; at != s; {
				best := -1
				for u := range f.n {
					if !on[u] && left[u][at] > 1e-9*rate && (best < 0 || left[u][at] > left[best][at]+1e-12) {
						best = u
					}
				}
				if best < 0 {
					break
				}
				p.hops = append(p.hops, pair{best, at})
				p.share = min(p.share, left[best][at])
				on[best], at = true, best
			}
			if n := len(p.hops); n == 0 || p.hops[n-1].from != s {
				break // the remainder is rounding error
			}
			slices.Reverse(p.hops)
			for _, h := range p.hops {
				left[h.from][h.to] -= p.share
			}
			want -= p.share
			p.share /= rate
			out = append(out, p)
		}
	}
	return out
}

// round chooses the number of chunks of a pair: the least at which whole chunks lose at most half a percent of the
// rate.
func (x *exchange) round() {
	best := 0.0
	for k := 1; k <= maxTrees; k++ {
		count := x.divide(k)
		if r := x.rateOf(k, count); r > best*(1+1e-9) {
			best, x.k, x.count = r, k, count
		}
		if best >= enough*x.rate {
			break
		}
	}
}

// divide gives the k chunks of each pair to its paths, in proportion to their shares.
func (x *exchange) divide(k int) []int {
	count := make([]int, len(x.paths))
	for i := 0; i < len(x.paths); {
		end := i
		for end < len(x.paths) && x.paths[end].from == x.paths[i].from && x.paths[end].to == x.paths[i].to {
			end++
		}
		left := k
		for j := i; j < end; j++ {
			count[j] = int(math.Floor(x.paths[j].share*float64(k) + 1e-6))
			left -= count[j]
		}
		for ; left > 0; left-- { // to the path that is furthest behind
			most := i
			for j := i; j < end; j++ {
				behind := func(j int) float64 { return x.paths[j].share*float64(k) - float64(count[j]) }
				if behind(j) > behind(most)+1e-9 {
					most = j
				}
			}
			count[most]++
		}
		i = end
	}
	return count
}

// rateOf returns the rate of a pair when its chunks are divided so.
func (x *exchange) rateOf(k int, count []int) float64 {
	load := make([]float64, len(x.g.Edges))
	for i, p := range x.paths {
		for _, h := range p.hops {
			route, _ := x.g.Route(h.from, h.to)
			for _, e := range route {
				load[e] += float64(count[i]) / float64(k)
			}
		}
	}
	rate := math.Inf(1)
	for e, l := range load {
		if l > 0 {
			rate = min(rate, x.g.Edges[e].GBps/l)
		}
	}
	return rate
}

// build compiles the all-to-all. Ranks on the way keep chunks in scratch.
func (x *exchange) build(o Options, s shape) (*plan.Plan, error) {
	if o.InPlace {
		return nil, fmt.Errorf("synth: an all-to-all is searched out of place only")
	}
	n := x.g.Ranks()
	p := (&forest{}).begin(x.g, o.Name, dsl.AllToAll(n, x.k, false), s)
	lanes := p.newLanes(0, x.depth+1)
	next := make([]int, n*n) // chunks of a pair that have a path
	for i, w := range x.paths {
		l := lanes[(w.to-w.from+n)%n%len(lanes)]
		first := next[w.from*n+w.to]
		next[w.from*n+w.to] += x.count[i]
		for c := first; c < first+x.count[i]; {
			size := x.count[i]
			if s.unit > 0 {
				size = 1 // slices of a pipeline are of single chunks
			}
			src := p.Rank(w.from).Input().Slice(w.to*x.k+c, w.to*x.k+c+size)
			for level, h := range w.hops {
				dst := p.Rank(h.to).Output().Slice(w.from*x.k+c, w.from*x.k+c+size)
				if h.to != w.to {
					dst = p.Rank(h.to).Scratch(size).All()
				}
				l.send(level, h.from, transfer{to: h.to, dst: dst, src: src})
				src = dst
			}
			c += size
		}
	}
	p.write(lanes)
	for r := range n {
		p.Rank(r).Copy(p.Rank(r).Output().Slice(r*x.k, (r+1)*x.k), p.Rank(r).Input().Slice(r*x.k, (r+1)*x.k), dsl.TB(s.lanes))
	}
	return p.Compile()
}
