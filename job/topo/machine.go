package topo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/internal/sysfile"
)

// Machine is one host.
type Machine struct {
	// Source is "detected", "recorded" or "synthesised" (written from published facts, not detected).
	Source string `json:"source"`
	Name   string `json:"name,omitempty"`
	// Driver is the version of the NVIDIA driver, like "580.159.04". CUDA is the newest CUDA version that it supports
	// (13000 is 13.0). They are empty and 0 without a driver.
	Driver string `json:"driver,omitempty"`
	CUDA   int    `json:"cuda,omitempty"`
	CPU    CPU    `json:"cpu"`
	NUMA   []NUMA `json:"numa,omitempty"`
	GPUs   []GPU  `json:"gpus"`
	NICs   []NIC  `json:"nics"`
	// Links holds every pair of GPUs once, with A < B.
	Links []Link `json:"links,omitempty"`
	// Notes list the facts that could not be determined, with the reasons.
	Notes []string `json:"notes,omitempty"`
}

// CPU is the model and the number of processors.
type CPU struct {
	Model   string `json:"model,omitempty"`
	Threads int    `json:"threads"`
}

// NUMA is one NUMA node; CPUs is a list like "0-47,96-143".
type NUMA struct {
	Node      int    `json:"node"`
	CPUs      string `json:"cpus"`
	MemoryMiB int64  `json:"memory_mib"`
}

// GPU is one device. Index follows NVML's order (bus order); CUDA uses it with CUDA_DEVICE_ORDER=PCI_BUS_ID.
type GPU struct {
	Index     int    `json:"index"`
	Name      string `json:"name"`
	UUID      string `json:"uuid,omitempty"`
	BusID     string `json:"bus_id,omitempty"`
	NUMA      int    `json:"numa"` // -1: unknown
	MemoryMiB int64  `json:"memory_mib"`
	// Compute is the compute capability, like "9.0".
	Compute string `json:"compute,omitempty"`
	// NVLinks is the number of active links, to any peer.
	NVLinks int `json:"nvlinks"`
	// PCIeGBps is the most that its PCIe link can carry in each direction, in GB/s; 0: unknown.
	PCIeGBps float64 `json:"pcie_gbps,omitempty"`
	MIG      bool    `json:"mig,omitempty"`
}

// NIC is a network interface with a hardware device.
type NIC struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"` // "ethernet" or "infiniband"
	BusID     string `json:"bus_id,omitempty"`
	NUMA      int    `json:"numa"` // -1: unknown
	SpeedMbps int    `json:"speed_mbps,omitempty"`
	Up        bool   `json:"up"`
	RDMA      string `json:"rdma,omitempty"` // verbs device, like "mlx5_0"
	// Paths is the distance between the NIC and each GPU, by GPU index.
	Paths []Path `json:"paths,omitempty"`
}

// Link is the connection between two GPUs.
type Link struct {
	A    int  `json:"a"`
	B    int  `json:"b"`
	Path Path `json:"path"`
	// NVLinks counts the NVLinks that traffic between the two can use, directly or through switches.
	NVLinks int `json:"nvlinks,omitempty"`
	// P2P means that kernels of each GPU can access memory of the other.
	P2P bool `json:"p2p"`
}

// Path is a kind of connection, in the terms of nvidia-smi topo. Smaller is closer.
type Path int

// The paths.
const (
	PathUnknown Path = iota
	PathNVLink       // NVLinks, direct or through switches
	PathPIX          // at most one PCIe bridge
	PathPXB          // several PCIe bridges, no host bridge
	PathPHB          // a host bridge (the CPU's)
	PathNode         // several host bridges of one NUMA node
	PathSys          // between NUMA nodes
)

var pathNames = [...]string{"?", "NV", "PIX", "PXB", "PHB", "NODE", "SYS"}

// String returns a name like "PIX".
func (p Path) String() string {
	if p < 0 || int(p) >= len(pathNames) {
		return "Path(" + strconv.Itoa(int(p)) + ")"
	}
	return pathNames[p]
}

// MarshalText returns the name.
func (p Path) MarshalText() ([]byte, error) {
	if p < 0 || int(p) >= len(pathNames) {
		return nil, fmt.Errorf("topo: no such path: %d", int(p))
	}
	return []byte(pathNames[p]), nil
}

// UnmarshalText parses the name.
func (p *Path) UnmarshalText(b []byte) error {
	i := slices.Index(pathNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("topo: unknown path %q: use one of %v", b, pathNames)
	}
	*p = Path(i)
	return nil
}

// String returns the cell of a matrix, like "NV18" or "PIX".
func (l Link) String() string {
	if l.Path == PathNVLink {
		return "NV" + strconv.Itoa(l.NVLinks)
	}
	return l.Path.String()
}

// Link returns the connection between two different GPUs, by index.
func (m *Machine) Link(a, b int) (Link, bool) {
	if a > b {
		a, b = b, a
	}
	for _, l := range m.Links {
		if l.A == a && l.B == b {
			return l, true
		}
	}
	return Link{}, false
}

// GPU finds a device by its bus id. CUDA may number GPUs in another order than Index, but the bus id is the same.
func (m *Machine) GPU(busID string) (GPU, bool) {
	for _, g := range m.GPUs {
		if busID != "" && g.BusID == busID {
			return g, true
		}
	}
	return GPU{}, false
}

// FullMesh reports whether all pairs of GPUs have peer access over the same number of NVLinks. The kernels are designed
// for that case.
func (m *Machine) FullMesh() bool {
	return len(m.GPUs) >= 2 && len(m.Links) == len(m.GPUs)*(len(m.GPUs)-1)/2 &&
		!slices.ContainsFunc(m.Links, func(l Link) bool {
			return !l.P2P || l.Path != PathNVLink || l.NVLinks != m.Links[0].NVLinks
		})
}

// NearestNIC returns the NIC that is closest to a GPU: NICs that are up first, then by path, then InfiniBand before
// Ethernet, then by speed.
func (m *Machine) NearestNIC(gpu int) (NIC, bool) {
	if len(m.NICs) == 0 {
		return NIC{}, false
	}
	return slices.MinFunc(m.NICs, func(a, b NIC) int {
		return cmp.Or(plain.Bit[int](b.Up)-plain.Bit[int](a.Up), cmp.Compare(a.path(gpu), b.path(gpu)),
			cmp.Compare(b.Kind, a.Kind), cmp.Compare(b.SpeedMbps, a.SpeedMbps))
	}), true
}

// path returns the path to a GPU; an unknown path ranks last.
func (n *NIC) path(gpu int) Path {
	if gpu < 0 || gpu >= len(n.Paths) || n.Paths[gpu] == PathUnknown {
		return PathSys + 1
	}
	return n.Paths[gpu]
}

// Nearest returns the places in adapters of those that are nearest to the device at a PCI address, in their order. An
// adapter is the path of its PCI device in sysfs (transport.NIC.PCI). Adapters of unknown place are farther than all
// others; if no distance is known, all are nearest. Ranks whose devices have the same nearest adapters share them in
// turn.
func Nearest(busID string, adapters []string) []int {
	return sysfs{sysfile.Host}.nearest(busID, adapters)
}

func (s sysfs) nearest(busID string, adapters []string) []int {
	best := PathSys + 1
	distance := make([]Path, len(adapters))
	for i, path := range adapters {
		if distance[i] = s.path(busID, pciOf(path)); distance[i] == PathUnknown {
			distance[i] = PathSys + 1
		}
		best = min(best, distance[i])
	}
	var near []int
	for i, d := range distance {
		if d == best {
			near = append(near, i)
		}
	}
	return near
}

// pciOf returns the last PCI address in a path of sysfs; virtio devices and network interfaces lie below theirs.
func pciOf(path string) string {
	for ; path != "" && path != "/" && path != "."; path = filepath.Dir(path) {
		if base := filepath.Base(path); pciAddress.MatchString(base) {
			return base
		}
	}
	return ""
}

// ErrInvalid is the error of an inconsistent Machine.
var ErrInvalid = errors.New("topo: invalid machine")

// maxSize bounds the input of Decode.
const maxSize = 4 << 20

// Encode returns m as indented JSON. Decode turns it back into an equal Machine.
func Encode(m *Machine) ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// Decode parses a Machine and validates it. Unknown fields are errors, so that a typo in a fixture is detected.
func Decode(b []byte) (*Machine, error) {
	if len(b) > maxSize {
		return nil, fmt.Errorf("%w: %d bytes of JSON, at most %d are read", ErrInvalid, len(b), maxSize)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	m := new(Machine)
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if d.More() {
		return nil, fmt.Errorf("%w: more than one JSON value", ErrInvalid)
	}
	return m, m.Validate()
}

// Validate checks that indices are in order, that every pair of GPUs occurs once, and that counts agree.
func (m *Machine) Validate() error {
	bad := func(format string, v ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, v...)...)
	}
	switch m.Source {
	case "detected", "recorded", "synthesised":
	default:
		return bad("source %q: use detected, recorded or synthesised", m.Source)
	}
	n := len(m.GPUs)
	for i, g := range m.GPUs {
		if g.Index != i {
			return bad("GPU %d has index %d", i, g.Index)
		}
		if g.MemoryMiB < 0 || g.NVLinks < 0 {
			return bad("GPU %d has negative memory or links", i)
		}
	}
	if len(m.Links) != n*(n-1)/2 {
		return bad("%d GPUs have %d pairs, not %d", n, n*(n-1)/2, len(m.Links))
	}
	seen := map[[2]int]bool{}
	for _, l := range m.Links {
		if l.A < 0 || l.A >= l.B || l.B >= n || seen[[2]int{l.A, l.B}] {
			return bad("link %d–%d: pairs are listed once, the smaller GPU first", l.A, l.B)
		}
		seen[[2]int{l.A, l.B}] = true
		if _, err := l.Path.MarshalText(); err != nil {
			return bad("link %d–%d: %v", l.A, l.B, err)
		}
		if (l.Path == PathNVLink) != (l.NVLinks > 0) || l.NVLinks > min(m.GPUs[l.A].NVLinks, m.GPUs[l.B].NVLinks) {
			return bad("link %d–%d is %s with %d NVLinks; the GPUs have %d and %d", l.A, l.B, l.Path, l.NVLinks,
				m.GPUs[l.A].NVLinks, m.GPUs[l.B].NVLinks)
		}
	}
	for _, c := range m.NICs {
		if c.Kind != "ethernet" && c.Kind != "infiniband" {
			return bad("NIC %q of kind %q", c.Name, c.Kind)
		}
		if len(c.Paths) != 0 && len(c.Paths) != n {
			return bad("NIC %q has paths to %d of %d GPUs", c.Name, len(c.Paths), n)
		}
	}
	return nil
}
