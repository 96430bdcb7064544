package synth

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/fabric"
	"github.com/goccl/goccl/plan/verify"
)

// narrowest looks at every set of nodes that some rank is not in, and returns the least rate per root that can leave
// it.
func narrowest(g *fabric.Graph, roots []int) float64 {
	best := math.Inf(1)
	for set := range 1 << len(g.Nodes) {
		in := func(n int) bool { return set>>n&1 == 1 }
		count, all := 0, true
		for _, r := range roots {
			if in(g.Node(r)) {
				count++
			}
		}
		for r := range g.Ranks() {
			all = all && in(g.Node(r))
		}
		if count == 0 || all {
			continue
		}
		out := 0.0
		for _, e := range g.Edges {
			if in(e.From) && !in(e.To) {
				out += e.GBps
			}
		}
		best = min(best, out/float64(count))
	}
	return best
}

func parse(t interface{ Fatal(...any) }, doc *fabric.Document) *fabric.Graph {
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	g, err := fabric.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// pod is a small cluster: two hosts with three GPUs each, and one NIC per GPU.
func pod(t *testing.T) *fabric.Graph {
	doc := &fabric.Document{Name: "pod", Hosts: 2, Host: &fabric.Part{}}
	add := func(name string, k fabric.Kind) {
		doc.Host.Nodes = append(doc.Host.Nodes, fabric.DocumentNode{Name: name, Kind: k})
	}
	add("switch", fabric.Switch)
	doc.Nodes = append(doc.Nodes, fabric.DocumentNode{Name: "spine", Kind: fabric.Switch})
	for i := range 3 {
		gpu, nic := fmt.Sprintf("gpu%d", i), fmt.Sprintf("nic%d", i)
		add(gpu, fabric.GPU)
		add(nic, fabric.NIC)
		doc.Host.Links = append(doc.Host.Links, fabric.DocumentLink{A: gpu, B: "switch", GBps: 90},
			fabric.DocumentLink{A: gpu, B: nic, GBps: 20})
		doc.Links = append(doc.Links, fabric.DocumentLink{A: "*/" + nic, B: "spine", GBps: 12.5})
	}
	return parse(t, doc)
}

// The bound is the narrowest of all cuts, found by trying every set of nodes.
func TestBoundIsTheNarrowestCut(t *testing.T) {
	graphs := []*fabric.Graph{pod(t)}
	for _, name := range []string{"ring-6", "pcie-8", "broken-nvlink"} {
		graphs = append(graphs, example(t, name))
	}
	for _, g := range graphs {
		for _, roots := range [][]int{ranks(g.Ranks()), {0}, {g.Ranks() - 1}} {
			b, err := Optimal(g, roots)
			if err != nil {
				t.Fatal(err)
			}
			if want := narrowest(g, roots); math.Abs(b.GBps-want) > 1e-6*want {
				t.Errorf("%s, %d roots: %g GB/s, the narrowest cut has %g", g.Name, len(roots), b.GBps, want)
			}
		}
	}
}

// On random graphs too. The trees reach what whole numbers of trees can, unless links differ by direction.
func TestRandomBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := &fabric.Document{Name: "random"}
		oneWay := rapid.Bool().Draw(t, "one way")
		n := rapid.IntRange(2, 5).Draw(t, "gpus")
		m := n + rapid.IntRange(0, 3).Draw(t, "switches")
		for i := range m {
			k := fabric.GPU
			if i >= n {
				k = fabric.Switch
			}
			doc.Nodes = append(doc.Nodes, fabric.DocumentNode{Name: fmt.Sprint(i), Kind: k})
			if i > 0 { // connected
				doc.Links = append(doc.Links, fabric.DocumentLink{A: fmt.Sprint(i),
					B:    fmt.Sprint(rapid.IntRange(0, i-1).Draw(t, "to")),
					GBps: float64(rapid.IntRange(1, 9).Draw(t, "rate"))})
			}
		}
		for range rapid.IntRange(0, 8).Draw(t, "more") {
			a := rapid.IntRange(0, m-1).Draw(t, "a")
			b := (a + rapid.IntRange(1, m-1).Draw(t, "b")) % m
			doc.Links = append(doc.Links, fabric.DocumentLink{A: fmt.Sprint(a), B: fmt.Sprint(b),
				GBps: float64(rapid.IntRange(1, 9).Draw(t, "rate")), OneWay: oneWay && rapid.Bool().Draw(t, "one way")})
		}
		g := parse(t, doc)
		roots := ranks(n)
		if rapid.Bool().Draw(t, "broadcast") {
			roots = roots[:1]
		}
		b, err := Optimal(g, roots)
		if err != nil {
			t.Fatal(err)
		}
		if want := narrowest(g, roots); math.Abs(b.GBps-want) > 1e-6*want {
			t.Fatalf("%g GB/s, the narrowest cut has %g", b.GBps, want)
		}
		d, err := newDirection(g, roots)
		if err != nil {
			t.Fatal(err)
		}
		before := d.scaled.share
		if _, err := d.forest(); err != nil {
			t.Fatal(err)
		}
		if !oneWay && d.scaled.share != before {
			t.Fatalf("switches cost rate: %.3f of the bound, %.3f before", d.scaled.share, before)
		}
	})
}

// The cut that Optimal reports proves its rate: it counts what leaves the cut again.
func TestBoundsOfPods(t *testing.T) {
	for name, want := range map[string]float64{"dgx-h100x2": 408. / 15, "dgx-h100x4": 408. / 31,
		"dgx-h100x16": 384. / 120} {
		g := example(t, name)
		b, err := Optimal(g, ranks(g.Ranks()))
		if err != nil {
			t.Fatal(err)
		}
		in := map[int]bool{}
		roots := 0
		for _, n := range b.Cut {
			in[n] = true
			if g.Rank(n) >= 0 {
				roots++
			}
		}
		out := 0.0
		for _, e := range g.Edges {
			if in[e.From] && !in[e.To] {
				out += e.GBps
			}
		}
		if rate := out / float64(roots); math.Abs(rate-b.GBps) > 1e-9 || math.Abs(rate-want) > 1e-9 || roots == g.Ranks() {
			t.Errorf("%s: bound %g GB/s, its cut %g of %d roots, want %g", name, b.GBps, rate, roots, want)
		}
	}
}

// star is hosts of some GPUs on a switch, each host with one NIC for each rate.
func star(name string, hosts int, gpu float64, nics ...float64) *fabric.Document {
	doc := &fabric.Document{Name: name, Hosts: hosts, Host: &fabric.Part{}}
	node := func(list *[]fabric.DocumentNode, name string, k fabric.Kind) {
		*list = append(*list, fabric.DocumentNode{Name: name, Kind: k})
	}
	node(&doc.Host.Nodes, "switch", fabric.Switch)
	node(&doc.Nodes, "spine", fabric.Switch)
	for i, gbps := range nics {
		g, nic := fmt.Sprintf("gpu%d", i), fmt.Sprintf("nic%d", i)
		node(&doc.Host.Nodes, g, fabric.GPU)
		node(&doc.Host.Nodes, nic, fabric.NIC)
		doc.Host.Links = append(doc.Host.Links, fabric.DocumentLink{A: g, B: "switch", GBps: gpu},
			fabric.DocumentLink{A: g, B: nic, GBps: gbps})
		doc.Links = append(doc.Links, fabric.DocumentLink{A: "*/" + nic, B: "spine", GBps: gbps})
	}
	return doc
}

// row is GPUs in a row; the first also has a link to some further ones.
func row(name string, n int, gbps float64, leaves int, leaf float64) *fabric.Document {
	doc := &fabric.Document{Name: name}
	for i := range n + leaves {
		doc.Nodes = append(doc.Nodes, fabric.DocumentNode{Name: fmt.Sprint(i), Kind: fabric.GPU})
		switch {
		case i >= n:
			doc.Links = append(doc.Links, fabric.DocumentLink{A: fmt.Sprint(i - n), B: fmt.Sprint(i), GBps: leaf})
		case i > 0:
			doc.Links = append(doc.Links, fabric.DocumentLink{A: fmt.Sprint(i - 1), B: fmt.Sprint(i), GBps: gbps})
		}
	}
	return doc
}

// random is a connected topology of 2 to 5 GPUs and some switches.
func random(rng *rand.Rand) *fabric.Document {
	doc := &fabric.Document{Name: "random"}
	n := 2 + rng.IntN(4)
	m := n + rng.IntN(3)
	link := func(a, b int) {
		doc.Links = append(doc.Links, fabric.DocumentLink{A: fmt.Sprint(a), B: fmt.Sprint(b),
			GBps: float64(1 + rng.IntN(9)), OneWay: len(doc.Links) >= m-1 && rng.IntN(3) == 0})
	}
	for i := range m {
		k, host := fabric.GPU, i%(1+rng.IntN(2))
		if i >= n {
			k = fabric.Switch
		}
		doc.Nodes = append(doc.Nodes, fabric.DocumentNode{Name: fmt.Sprint(i), Kind: k, Host: &host})
		if i > 0 {
			link(i, rng.IntN(i))
		}
	}
	for range rng.IntN(6) {
		if a, b := rng.IntN(m), rng.IntN(m); a != b {
			link(a, b)
		}
	}
	return doc
}

// Pipelines over NICs of different rates are proven: threads of a block that push transfers by turns settle.
func TestPipelinesOverUnequalNICs(t *testing.T) {
	g := parse(t, star("unequal NICs", 2, 150, 25, 50))
	o := Options{Graph: g, Collective: plan.AllReduce, Size: 64 << 20, Machine: machine(t), Name: "pipeline"}
	list, _, err := families(o, ranks(g.Ranks()))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		p, err := f.build(o, shape{lanes: 1, instances: 1, unit: 64 << 10})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := verify.Check(p, verify.Options{}); err != nil {
			t.Error(f, err)
		}
	}
}

// No plan that is found or ships takes less time than the bound says. With GOCCL_FULL=1 whatever the collective, and on
// more topologies.
func TestNoPlanBeatsItsBound(t *testing.T) {
	docs := []*fabric.Document{row("broken ring of 7", 7, 40, 0, 0), row("weak leaves", 3, 40, 3, 5)}
	rng := rand.New(rand.NewPCG(1, 2))
	some := 1
	if full {
		docs = append(docs, star("3 hosts of 5", 3, 150, 25, 25, 25, 25, 25), star("unequal NICs", 2, 150, 12, 25, 50))
		some = 100
	}
	for range some {
		docs = append(docs, random(rng))
	}
	for i, doc := range docs {
		size := int64(4 << 20)
		if i == 0 || full {
			size = 12 << 20
		}
		g := parse(t, doc)
		for _, c := range []plan.Collective{plan.AllReduce, plan.AllGather, plan.ReduceScatter, plan.Broadcast,
			plan.AllToAll} {
			if c != plan.AllReduce && !full {
				continue
			}
			r, err := Run(Options{Graph: g, Collective: c, Size: size, Machine: machine(t)})
			if err != nil {
				t.Fatalf("%s, %s: %v", g.Name, c, err)
			}
			for _, k := range r.Candidates {
				if k.Micros > 0 && k.Micros < r.BoundMicros*(1-1e-9) {
					t.Errorf("%s, %s: %s takes %.2f us, the bound is %.2f: %s", g.Name, c, k.Name, k.Micros, r.BoundMicros,
						r.Bound.Reason(g))
				}
				if k.Err != nil && !k.Shipped {
					t.Logf("%s, %s: %s: %v", g.Name, c, k.Name, k.Err)
				}
			}
			t.Logf("%s, %s: %.0f us, %+.1f %% over the bound (%s): %s", g.Name, c, r.Best.Micros,
				100*(r.Best.Micros/r.BoundMicros-1), r.Bound.Reason(g), r.Best.Name)
		}
	}
}
