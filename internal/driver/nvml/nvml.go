package nvml

import (
	"errors"
	"strings"
)

// ErrUnavailable is why Read fails without NVML.
var ErrUnavailable = errors.New("nvml: not available")

// Info is a machine's GPUs in NVML's order.
type Info struct {
	// Driver is like "580.159.04", CUDA the newest CUDA version it supports: 13000.
	Driver string
	CUDA   int
	GPUs   []GPU
	// P2P[i][j] tells whether i can write to j; Known[i][j] whether NVML knows.
	P2P, Known [][]bool
	// Ancestor[i][j] is the level of the common PCIe ancestor.
	Ancestor [][]Level
}

// GPU is one device.
type GPU struct {
	Name, UUID, BusID string // BusID is normalised: "0000:3b:00.0"
	Memory            int64  // bytes
	Major, Minor      int
	MIG               bool
	Links             []Link // active ones
}

// NVLinks is how many active NVLinks traffic between GPUs a and b can take: links straight to each other, and links
// into switches, which reach every GPU on the fabric.
func (i *Info) NVLinks(a, b int) int {
	count := func(from, to int) (direct, switched int) {
		for _, k := range i.GPUs[from].Links {
			switch {
			case k.Kind == ToGPU && k.Remote == i.GPUs[to].BusID:
				direct++
			case k.Kind == ToSwitch:
				switched++
			}
		}
		return direct, switched
	}
	da, sa := count(a, b)
	db, sb := count(b, a)
	return min(da, db) + min(sa, sb)
}

// LinkKind is the kind of device at the remote end of an NVLink.
type LinkKind int

// The kinds of far ends.
const (
	ToGPU LinkKind = iota + 1
	ToSwitch
	ToOther
)

// Link is an active NVLink.
type Link struct {
	Kind   LinkKind
	Remote string // normalised bus id, if known
}

// Level is how far apart two GPUs are on PCIe.
type Level int

// The levels, as NVML numbers them.
const (
	Unknown    Level = -1
	Internal   Level = 0
	Single     Level = 10 // one PCIe switch
	Multiple   Level = 20 // several switches, no host bridge
	HostBridge Level = 30
	Node       Level = 40 // one NUMA node
	System     Level = 50
)

// BusID writes a PCI address the way /sys does: lower case, four digits of domain.
func BusID(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if domain, rest, ok := strings.Cut(s, ":"); ok && len(domain) == 8 && strings.HasPrefix(domain, "0000") {
		return domain[4:] + ":" + rest
	}
	return s
}
