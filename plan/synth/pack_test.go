package synth

import (
	"os"
	"testing"

	"github.com/goccl/goccl/plan/fabric"
)

func example(t *testing.T, name string) *fabric.Graph {
	t.Helper()
	g, err := fabric.Example(name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func ranks(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// The trees of every root span all ranks, there are k of them, and together they keep within the room of the mesh. The
// mesh keeps within the links.
func TestTreesFit(t *testing.T) {
	for _, name := range fabric.Examples() {
		if name == "dgx-h100x16" && os.Getenv("GOCCL_FULL") == "" {
			continue
		}
		g := example(t, name)
		b, err := Optimal(g, ranks(g.Ranks()))
		if err != nil {
			t.Fatal(err)
		}
		s := newRateTest(g, ranks(g.Ranks())).scale(b)
		if s.share < 0.99 {
			t.Errorf("%s: %d trees per root reach %.2f %% of the rate", name, s.k, 100*s.share)
		}
		m := newMesh(g, ranks(g.Ranks()), s)
		m.split()
		if !m.fits() {
			t.Fatalf("%s: the mesh lost rate", name)
		}
		room := m.clone().room
		trees, err := m.pack()
		if err != nil {
			t.Fatal(err)
		}
		count := map[int]int{}
		for _, tr := range trees {
			count[tr.root] += tr.count
			for v, u := range tr.parent {
				if (u < 0) != (v == tr.root) || u >= 0 && tr.depth[v] != tr.depth[u]+1 {
					t.Fatalf("%s: rank %d has parent %d in a tree of %d", name, v, u, tr.root)
				}
				if u >= 0 {
					room[g.Node(u)][g.Node(v)] -= int64(tr.count)
				}
			}
		}
		for r := range g.Ranks() {
			if count[r] != s.k {
				t.Errorf("%s: %d trees of rank %d, want %d", name, count[r], r, s.k)
			}
		}
		for a, row := range room {
			for b, left := range row {
				if left < 0 {
					t.Errorf("%s: %d trees too many from %s to %s", name, -left, g.Nodes[a].Name, g.Nodes[b].Name)
				}
			}
		}
	}
}
