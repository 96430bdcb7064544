// Package fabrics makes plans' fabrics of the machines that topo describes.
package fabrics

import (
	"fmt"
	"slices"

	"github.com/goccl/goccl/job/topo"
	"github.com/goccl/goccl/plan/fabric"
)

// Rates of payload in GB/s, where the machine states only its hardware.
const (
	nvlinkGBps  = 20   // one NVLink, in each direction: 25 less the protocol's overhead
	pcieGBps    = 25   // a PCIe link of unknown width
	pcieShare   = 0.85 // of a PCIe link's rate that payload gets
	socketsGBps = 20   // between two processors
	nicShare    = 0.96 // of a NIC's rate
	pcieMicros  = 0.3
	nicMicros   = 1.2
)

// OfMachine returns the graph of `hosts` machines like m. NVLinks are those that Links counts: through a switch if
// a GPU's pairs have more than the GPU, else from GPU to GPU. Pairs of GPUs without NVLink that access each other get
// the PCIe links of their processors. Every NIC that is up serves the GPUs that it is nearest to; a switch that never
// is the bottleneck joins all NICs.
func OfMachine(m *topo.Machine, hosts int) (*fabric.Graph, error) {
	host := &fabric.Part{}
	name := func(i int) string { return fmt.Sprintf("gpu%d", i) }
	count := make([]int, len(m.GPUs))
	for i := range m.GPUs {
		host.Nodes = append(host.Nodes, fabric.DocumentNode{Name: name(i), Kind: fabric.GPU})
	}
	overPCIe := false
	for _, l := range m.Links {
		count[l.A], count[l.B] = count[l.A]+l.NVLinks, count[l.B]+l.NVLinks
		overPCIe = overPCIe || l.Path != topo.PathNVLink && l.P2P
	}
	switched := slices.ContainsFunc(m.GPUs, func(g topo.GPU) bool { return count[g.Index] > g.NVLinks })
	if switched {
		host.Nodes = append(host.Nodes, fabric.DocumentNode{Name: "nvswitch", Kind: fabric.Switch})
		for _, g := range m.GPUs {
			if g.NVLinks > 0 {
				host.Links = append(host.Links, fabric.DocumentLink{A: name(g.Index), B: "nvswitch",
					GBps: float64(g.NVLinks) * nvlinkGBps})
			}
		}
	} else {
		for _, l := range m.Links {
			if l.NVLinks > 0 {
				host.Links = append(host.Links, fabric.DocumentLink{A: name(l.A), B: name(l.B),
					GBps: float64(l.NVLinks) * nvlinkGBps})
			}
		}
	}
	if overPCIe {
		addPCIe(m, host)
	}
	doc := &fabric.Document{Name: m.Name, Source: "goccl topo: " + m.Source, Hosts: max(1, hosts), Host: host}
	if hosts > 1 {
		addNICs(m, doc)
	}
	return doc.Graph()
}

// addPCIe adds a switch for every processor with GPUs, and the link between processors.
func addPCIe(m *topo.Machine, host *fabric.Part) {
	var roots []int
	for _, g := range m.GPUs {
		root := max(0, g.NUMA)
		if !slices.Contains(roots, root) {
			for _, other := range roots {
				if !across(m, other, root) {
					continue
				}
				host.Links = append(host.Links, fabric.DocumentLink{A: fmt.Sprintf("root%d", other),
					B: fmt.Sprintf("root%d", root), GBps: socketsGBps, Micros: pcieMicros})
			}
			roots = append(roots, root)
			host.Nodes = append(host.Nodes, fabric.DocumentNode{Name: fmt.Sprintf("root%d", root), Kind: fabric.Switch})
		}
		host.Links = append(host.Links, fabric.DocumentLink{A: fmt.Sprintf("gpu%d", g.Index),
			B: fmt.Sprintf("root%d", root), GBps: pcie(g), Micros: pcieMicros})
	}
}

// across reports whether some GPUs of two processors access each other.
func across(m *topo.Machine, a, b int) bool {
	return slices.ContainsFunc(m.Links, func(l topo.Link) bool {
		x, y := max(0, m.GPUs[l.A].NUMA), max(0, m.GPUs[l.B].NUMA)
		return l.P2P && (x == a && y == b || x == b && y == a)
	})
}

func pcie(g topo.GPU) float64 {
	if g.PCIeGBps > 0 {
		return g.PCIeGBps * pcieShare
	}
	return pcieGBps
}

// addNICs adds the NIC that is nearest to each GPU, and the network.
func addNICs(m *topo.Machine, doc *fabric.Document) {
	total := 0.0
	seen := map[string]bool{}
	for _, g := range m.GPUs {
		n, ok := m.NearestNIC(g.Index)
		if !ok || !n.Up {
			continue
		}
		doc.Host.Links = append(doc.Host.Links, fabric.DocumentLink{A: fmt.Sprintf("gpu%d", g.Index), B: n.Name,
			GBps: pcie(g), Micros: pcieMicros})
		if seen[n.Name] {
			continue
		}
		seen[n.Name] = true
		rate := max(float64(n.SpeedMbps)/8000*nicShare, 0.1)
		total += rate
		doc.Host.Nodes = append(doc.Host.Nodes, fabric.DocumentNode{Name: n.Name, Kind: fabric.NIC})
		doc.Links = append(doc.Links, fabric.DocumentLink{A: "*/" + n.Name, B: "network", GBps: rate, Micros: nicMicros})
	}
	if total > 0 {
		doc.Nodes = append(doc.Nodes, fabric.DocumentNode{Name: "network", Kind: fabric.Switch})
	}
}
