package fabric

import (
	"errors"
	"fmt"
	"math"
)

// Kind is what a node is.
type Kind string

// The kinds. Only switches and NICs forward; a GPU sends and receives.
const (
	GPU    Kind = "gpu"
	Switch Kind = "switch"
	NIC    Kind = "nic"
)

// Node is a GPU, a switch or a NIC. GPUs are ranks, in the order of the nodes.
type Node struct {
	Name string
	Kind Kind
	Host int // -1: outside of hosts
}

// Edge is one direction of a link.
type Edge struct {
	From, To int     // nodes
	GBps     float64 // 10⁹ bytes of payload per second
	Micros   float64 // latency
}

// Graph is a topology.
type Graph struct {
	Name, Source string
	Nodes        []Node
	Edges        []Edge

	ranks  []int     // node of each rank
	rankOf []int     // rank of each node, or -1
	out    [][]int32 // edges that leave a node
	routes [][]route // by source and destination rank
}

type route struct {
	edges  []int32
	micros float64
}

// ErrInvalid is the class of all errors in a topology.
var ErrInvalid = errors.New("invalid topology")

// maxNodes bounds a graph: routes are kept for every pair of GPUs.
const maxNodes = 4096

func (g *Graph) bad(format string, args ...any) error {
	return fmt.Errorf("fabric: %s: %w: "+format, append([]any{g.Name, ErrInvalid}, args...)...)
}

// finish checks a graph and computes its indices and routes.
func (g *Graph) finish() error {
	if len(g.Nodes) > maxNodes {
		return g.bad("%d nodes, at most %d", len(g.Nodes), maxNodes)
	}
	g.rankOf, g.out = make([]int, len(g.Nodes)), make([][]int32, len(g.Nodes))
	for i, n := range g.Nodes {
		g.rankOf[i] = -1
		switch n.Kind {
		case GPU:
			g.rankOf[i] = len(g.ranks)
			g.ranks = append(g.ranks, i)
		case Switch, NIC:
		default:
			return g.bad("node %s has kind %q, want gpu, switch or nic", n.Name, n.Kind)
		}
	}
	if len(g.ranks) < 2 {
		return g.bad("%d GPUs, want 2 or more", len(g.ranks))
	}
	for i, e := range g.Edges {
		if !(e.GBps > 0) || math.IsInf(e.GBps, 0) || !(e.Micros >= 0) || math.IsInf(e.Micros, 0) {
			return g.bad("link %s to %s: %g GB/s and %g us, want a positive rate and a latency of 0 or more",
				g.Nodes[e.From].Name, g.Nodes[e.To].Name, e.GBps, e.Micros)
		}
		g.out[e.From] = append(g.out[e.From], int32(i))
	}
	g.routes = make([][]route, len(g.ranks))
	for r := range g.ranks {
		g.routes[r] = g.routesFrom(r)
	}
	return nil
}

// Reverse returns the graph with every edge turned round.
func (g *Graph) Reverse() *Graph {
	r := &Graph{Name: g.Name, Source: g.Source, Nodes: g.Nodes, Edges: make([]Edge, len(g.Edges))}
	for i, e := range g.Edges {
		r.Edges[i] = Edge{From: e.To, To: e.From, GBps: e.GBps, Micros: e.Micros}
	}
	if err := r.finish(); err != nil {
		panic(err) // g is valid
	}
	return r
}

// Ranks returns the number of GPUs.
func (g *Graph) Ranks() int { return len(g.ranks) }

// Node returns the node of a rank.
func (g *Graph) Node(rank int) int { return g.ranks[rank] }

// Rank returns the rank of a node, -1 for a switch or a NIC.
func (g *Graph) Rank(node int) int { return g.rankOf[node] }

// SameHost reports whether two ranks are on one host.
func (g *Graph) SameHost(a, b int) bool { return g.Nodes[g.ranks[a]].Host == g.Nodes[g.ranks[b]].Host }

// Hosts returns the number of hosts if each has the same number of consecutive ranks, and 0 otherwise.
func (g *Graph) Hosts() int {
	hosts := 1
	for r := 1; r < len(g.ranks); r++ {
		if !g.SameHost(r, r-1) {
			hosts++
		}
	}
	if len(g.ranks)%hosts != 0 {
		return 0
	}
	per := len(g.ranks) / hosts
	for r := range g.ranks {
		if !g.SameHost(r, r/per*per) {
			return 0
		}
	}
	return hosts
}

// Route returns the edges from rank a to rank b, first to last, and the sum of their latencies. The route has the
// fewest edges; among those it is the one whose slowest edge is fastest, and then the first in the order of the graph.
// It does not lead through a GPU. It is nil if there is none.
func (g *Graph) Route(a, b int) (edges []int32, micros float64) {
	r := &g.routes[a][b]
	return r.edges, r.micros
}

// Used reports which edges are on the route of some pair of ranks.
func (g *Graph) Used() []bool {
	used := make([]bool, len(g.Edges))
	for _, row := range g.routes {
		for _, r := range row {
			for _, e := range r.edges {
				used[e] = true
			}
		}
	}
	return used
}

// routesFrom returns the routes from a rank to every rank.
func (g *Graph) routesFrom(rank int) []route {
	type best struct {
		hops  int
		width float64
		via   int32
	}
	at := make([]best, len(g.Nodes))
	for i := range at {
		at[i] = best{hops: math.MaxInt, via: -1}
	}
	from := g.ranks[rank]
	at[from] = best{width: math.Inf(1), via: -1}
	for level, now := 0, []int{from}; len(now) > 0; level++ {
		var next []int
		for _, n := range now {
			if n != from && g.Nodes[n].Kind == GPU {
				continue
			}
			for _, id := range g.out[n] {
				e := &g.Edges[id]
				b := &at[e.To]
				w := min(at[n].width, e.GBps)
				if b.hops < level+1 || b.hops == level+1 && b.width >= w {
					continue
				}
				if b.hops == math.MaxInt {
					next = append(next, e.To)
				}
				*b = best{hops: level + 1, width: w, via: id}
			}
		}
		now = next
	}
	out := make([]route, len(g.ranks))
	for r, n := range g.ranks {
		if r == rank || at[n].via < 0 {
			continue
		}
		edges := make([]int32, at[n].hops)
		for i := len(edges) - 1; i >= 0; i-- {
			edges[i] = at[n].via
			out[r].micros += g.Edges[edges[i]].Micros
			n = g.Edges[edges[i]].From
		}
		out[r].edges = edges
	}
	return out
}
