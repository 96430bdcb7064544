package fabrics

import (
	"os"
	"testing"

	"github.com/goccl/goccl/job/topo"
)

// Recorded machines become graphs: 8 GPUs behind one NVSwitch, and 4 GPUs on PCIe.
func TestMachinesBecomeFabrics(t *testing.T) {
	for _, c := range []struct {
		file       string
		hosts      int
		from, to   int
		hops       int
		gbps       float64
		sameHosts  bool
		totalRanks int
	}{
		{"8xh200", 1, 0, 7, 2, 360, true, 8}, {"8xh200", 2, 0, 15, 4, 0, false, 16}, {"4xpcie", 1, 0, 1, 2, 0, true, 4},
		{"4xpcie", 1, 0, 3, 0, 0, true, 4}, // no access between the processors

	} {
		data, err := os.ReadFile("../../../../job/topo/testdata/" + c.file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		m, err := topo.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		g, err := OfMachine(m, c.hosts)
		if err != nil {
			t.Fatal(err)
		}
		route, _ := g.Route(c.from, c.to)
		if g.Ranks() != c.totalRanks || g.SameHost(c.from, c.to) != c.sameHosts || len(route) != c.hops || c.gbps > 0 &&
			g.Edges[route[0]].GBps != c.gbps {
			t.Errorf("%s × %d: %d ranks, route %v of %v", c.file, c.hosts, g.Ranks(), route, g.Edges)
		}
	}
}
