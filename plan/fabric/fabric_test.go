package fabric

import (
	"errors"
	"testing"
)

func TestExamplesParse(t *testing.T) {
	want := map[string][2]int{"broken-nvlink": {4, 1}, "dgx-h100x16": {128, 16}, "dgx-h100x2": {16, 2},
		"dgx-h100x4": {32, 4},
		"pcie-8":     {8, 1}, "ring-6": {6, 1}}
	for _, name := range Examples() {
		g, err := Example(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]int{g.Ranks(), g.Hosts()}; got != want[name] {
			t.Errorf("%s: %v ranks and hosts, want %v", name, got, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// A route is the shortest one that leads through no GPU, and between equals the widest.
func TestRoutes(t *testing.T) {
	for _, c := range []struct {
		graph string
		a, b  int
		hops  int
		us    float64
	}{
		{"dgx-h100x2", 0, 7, 2, 0}, {"dgx-h100x2", 0, 8, 4, 2.4}, {"dgx-h100x2", 0, 9, 6, 3.2}, {"ring-6", 0, 1, 1, 0},
		{"ring-6", 0, 2, 0, 0}, {"pcie-8", 0, 4, 3, 1}, {"broken-nvlink", 0, 1, 2, 1}, {"broken-nvlink", 0, 2, 1, 0},
	} {
		g, err := Example(c.graph)
		if err != nil {
			t.Fatal(err)
		}
		edges, us := g.Route(c.a, c.b)
		if len(edges) != c.hops || us < c.us-1e-9 || us > c.us+1e-9 {
			t.Errorf("%s, %d to %d: %d hops, %g us; want %d, %g", c.graph, c.a, c.b, len(edges), us, c.hops, c.us)
		}
	}
	g,
		err := Parse([]byte(`{"name":"two ways","nodes":[{"name":"a","kind":"gpu"},
		{"name":"b","kind":"gpu"},{"name":"s","kind":"switch"},{"name":"w","kind":"switch"}],"links":[
		{"a":"a","b":"s","gbps":1},{"a":"s","b":"b","gbps":9},{"a":"a","b":"w","gbps":2},{"a":"w","b":"b","gbps":2}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if e, _ := g.Route(0, 1); len(e) != 2 || g.Nodes[g.Edges[e[0]].To].Name != "w" {
		t.Errorf("the narrow route is taken: %v", e)
	}
}

func TestWrongTopologies(t *testing.T) {
	for _, s := range []string{
		``, `{}`, `{"name":"x","links":[],"color":1}`, `{"name":"x","nodes":[{"name":"a","kind":"gpu"}],"links":[]}`,
		`{"name":"x","nodes":[{"name":"a","kind":"gpu"},{"name":"a","kind":"gpu"}],"links":[]}`,
		`{"name":"x","nodes":[{"name":"a","kind":"gpu"},{"name":"b","kind":"cpu"}],"links":[]}`,
		`{"name":"x","nodes":[{"name":"a","kind":"gpu"},{"name":"b","kind":"gpu"}],
			"links":[{"a":"a","b":"c","gbps":1}]}`,
		`{"name":"x","nodes":[{"name":"a","kind":"gpu"},{"name":"b","kind":"gpu"}],
			"links":[{"a":"a","b":"b","gbps":0}]}`,
		`{"name":"x","hosts":2,"nodes":[],"links":[]}`,
	} {
		if _, err := Parse([]byte(s)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", s, err)
		}
	}
}
