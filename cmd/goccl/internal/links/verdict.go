package links

import (
	"fmt"
	"strings"

	"github.com/goccl/goccl/job/topo"
)

// Verdict is what one pair of GPUs really does. A and B are numbers of CUDA.
type Verdict struct {
	A, B int
	// BusA and BusB are the PCI addresses.
	BusA, BusB string
	// Link is the link kind that goccl uses, like "NVLink", and Reason why it is no better.
	Link, Reason string
	// Micros is the time of an exchange of 8 bytes, both ways at once, with its launch.
	Micros float64
	// GBps is the bandwidth of large messages in each direction, both ways at once.
	GBps float64
	// Error is why the pair cannot be used; "" if all data was right.
	Error string
}

// Pair is the name of the pair.
func (v *Verdict) Pair() string { return fmt.Sprintf("%d-%d", v.A, v.B) }

// Promise is the bandwidth in each direction that the link of a verdict promises, in GB/s; 0 if it is not known.
func (v *Verdict) Promise(m *topo.Machine) float64 {
	if m == nil {
		return 0
	}
	a, okA := m.GPU(v.BusA)
	b, okB := m.GPU(v.BusB)
	if !okA || !okB {
		return 0
	}
	if v.Link == "NVLink" {
		l, _ := m.Link(a.Index, b.Index)
		perLink := 25.0
		if major, _, _ := strings.Cut(a.Compute, "."); len(major) > 1 { // 10.0 and later
			perLink = 50
		}
		return perLink * float64(l.NVLinks)
	}
	return min(a.PCIeGBps, b.PCIeGBps)
}
