package topo

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"sort"
	"strconv"
	"strings"

	"github.com/goccl/goccl/internal/driver"
	"github.com/goccl/goccl/internal/driver/nvml"
	"github.com/goccl/goccl/internal/sysfile"
)

// Source is the origin of the facts. Tests provide their own.
type Source struct {
	// Root is the root of the file system with /sys and /proc.
	Root string
	// NVML reads the GPUs; nil means that NVML is missing.
	NVML func() (*nvml.Info, error)
	// CUDA lists the GPUs of the CUDA driver if NVML is missing (containers without the utility capability); nil means
	// that CUDA is missing.
	CUDA func() (*nvml.Info, error)
}

// Detect describes this host. Missing parts are Notes, not errors; the only error is the context's.
func Detect(ctx context.Context) (*Machine, error) {
	return Source{Root: "/", NVML: nvml.Read, CUDA: readCUDA}.Detect(ctx)
}

// Detect describes the host of s.
func (s Source) Detect(ctx context.Context) (*Machine, error) {
	m := &Machine{Source: "detected", GPUs: []GPU{}, NICs: []NIC{}}
	info, err := s.gpus(ctx)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("topo: detect: %w", context.Cause(ctx))
	}
	if err != nil {
		m.Notes = append(m.Notes, err.Error())
	}
	sys := sysfs{sysfile.Root(s.Root)}
	m.CPU, m.NUMA = sys.cpu(), sys.numa()
	if info != nil {
		m.Driver, m.CUDA = info.Driver, info.CUDA
		for i, g := range info.GPUs {
			gpu := GPU{Index: i, Name: g.Name, UUID: g.UUID, BusID: g.BusID, NUMA: sys.pciNUMA(g.BusID),
				MemoryMiB: g.Memory >> 20, NVLinks: len(g.Links), MIG: g.MIG,
				PCIeGBps: sys.pcieGBps(g.BusID)}
			if g.Major > 0 {
				gpu.Compute = fmt.Sprintf("%d.%d", g.Major, g.Minor)
			}
			m.GPUs = append(m.GPUs, gpu)
		}
		for a := range m.GPUs {
			for b := a + 1; b < len(m.GPUs); b++ {
				m.Links = append(m.Links, link(info, sys, a, b))
			}
		}
	}
	m.NICs = sys.nics()
	for i := range m.NICs {
		for _, g := range m.GPUs {
			m.NICs[i].Paths = append(m.NICs[i].Paths, sys.path(m.NICs[i].BusID, g.BusID))
		}
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// gpus asks NVML, then CUDA. The driver may hang on a broken GPU, so the query runs on a goroutine that is abandoned
// when the context ends.
func (s Source) gpus(ctx context.Context) (*nvml.Info, error) {
	type answer struct {
		info *nvml.Info
		err  error
	}
	c := make(chan answer, 1)
	go func() {
		var a answer
		if s.NVML != nil {
			a.info, a.err = s.NVML()
		}
		if a.info == nil && s.CUDA != nil {
			if info, err := s.CUDA(); err == nil {
				a.info, a.err = info, fmt.Errorf("no NVML, so NVLinks are not known and only visible GPUs are listed: %w", a.err)
			}
		}
		c <- a
	}()
	select {
	case a := <-c:
		return a.info, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// link combines NVML's facts about a pair: NVLinks that end at the other GPU, and links into switches, which reach
// every GPU of the fabric.
func link(info *nvml.Info, sys sysfs, a, b int) Link {
	l := Link{A: a, B: b, P2P: info.P2P[a][b] && info.P2P[b][a]}
	if l.NVLinks = info.NVLinks(a, b); l.NVLinks > 0 {
		l.Path = PathNVLink
		return l
	}
	if l.Path = levels[info.Ancestor[a][b]]; l.Path == PathUnknown {
		l.Path = sys.path(info.GPUs[a].BusID, info.GPUs[b].BusID)
	}
	return l
}

var levels = map[nvml.Level]Path{nvml.Internal: PathPIX, nvml.Single: PathPIX, nvml.Multiple: PathPXB,
	nvml.HostBridge: PathPHB, nvml.Node: PathNode, nvml.System: PathSys}

// readCUDA lists the GPUs that are visible to the CUDA driver.
func readCUDA() (*nvml.Info, error) {
	if err := driver.Load(); err != nil {
		return nil, err
	}
	n, err := driver.DeviceCount()
	if err != nil {
		return nil, err
	}
	info := &nvml.Info{Driver: sysfile.Host.Read("sys/module/nvidia/version")}
	if info.CUDA, err = driver.Version(); err != nil {
		return nil, err
	}
	for i := range n {
		var g nvml.GPU
		if g.Name, err = driver.DeviceName(i); err != nil {
			return nil, err
		}
		if g.BusID, err = driver.DeviceBusID(i); err != nil {
			return nil, err
		}
		g.BusID = nvml.BusID(g.BusID)
		if g.Memory, err = driver.DeviceMemory(i); err != nil {
			return nil, err
		}
		g.Major, _ = driver.DeviceAttribute(i, driver.ComputeMajor)
		g.Minor, _ = driver.DeviceAttribute(i, driver.ComputeMinor)
		p2p, known, level := make([]bool, n), make([]bool, n), make([]nvml.Level, n)
		for j := range n {
			ok, err := driver.CanAccessPeer(i, j)
			p2p[j], known[j], level[j] = ok && err == nil, err == nil, nvml.Unknown
		}
		info.GPUs = append(info.GPUs, g)
		info.P2P, info.Known, info.Ancestor = append(info.P2P, p2p), append(info.Known, known), append(info.Ancestor, level)
	}
	return info, nil
}

// sysfs reads /sys and /proc under a root. Missing files mean unknown facts.
type sysfs struct{ sysfile.Root }

func (s sysfs) cpu() CPU {
	c := CPU{}
	for line := range strings.Lines(s.Read("proc/cpuinfo")) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "processor":
			c.Threads++
		case "model name":
			c.Model = strings.TrimSpace(value)
		}
	}
	c.Threads = cmp.Or(c.Threads, runtime.NumCPU())
	return c
}

func (s sysfs) numa() []NUMA {
	const dir = "sys/devices/system/node"
	var nodes []NUMA
	for _, name := range s.Names(dir) {
		id, err := strconv.Atoi(strings.TrimPrefix(name, "node"))
		if err != nil || !strings.HasPrefix(name, "node") {
			continue
		}
		n := NUMA{Node: id, CPUs: s.Read(dir, name, "cpulist")}
		for line := range strings.Lines(s.Read(dir, name, "meminfo")) {
			if f := strings.Fields(line); len(f) >= 4 && f[2] == "MemTotal:" {
				kib, _ := strconv.ParseInt(f[3], 10, 64)
				n.MemoryMiB = kib >> 10
			}
		}
		nodes = append(nodes, n)
	}
	sort.Slice(nodes, func(i, j int) bool { return nodes[i].Node < nodes[j].Node })
	return nodes
}

// pcieGBps is the bandwidth of a device's PCIe link at its highest speed: lanes × transfers a second, of which 128 of
// 130 bits are data (8 of 10 before PCIe 3).
func (s sysfs) pcieGBps(bus string) float64 {
	text, _, _ := strings.Cut(s.Read("sys/bus/pci/devices", bus, "max_link_speed"), " ")
	speed, err := strconv.ParseFloat(text, 64) // GT/s
	lanes := s.Number(0, "sys/bus/pci/devices", bus, "max_link_width")
	if bus == "" || err != nil || speed <= 0 || lanes <= 0 || lanes > 32 {
		return 0
	}
	data := 128.0 / 130
	if speed < 8 {
		data = 0.8
	}
	return math.Round(speed*float64(lanes)*data/8*10) / 10
}

func (s sysfs) pciNUMA(bus string) int {
	if bus == "" {
		return -1
	}
	return s.Number(-1, "sys/bus/pci/devices", bus, "numa_node")
}

// NUMANode returns the NUMA node of the device at a PCI address like "0000:3b:00.0", or -1 when it is not known.
func NUMANode(busID string) int { return sysfs{sysfile.Host}.pciNUMA(busID) }

var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// chain returns the host bridge and the PCI addresses from the root port down to the device.
func (s sysfs) chain(bus string) (host string, bridges []string) {
	if bus == "" {
		return "", nil
	}
	for part := range strings.SplitSeq(s.Resolve("sys/bus/pci/devices", bus), "/") {
		switch {
		case strings.HasPrefix(part, "pci"):
			host, bridges = part, nil
		case pciAddress.MatchString(part):
			bridges = append(bridges, part)
		}
	}
	return host, bridges
}

// path is the distance between two PCI devices.
func (s sysfs) path(a, b string) Path {
	ha, ca := s.chain(a)
	hb, cb := s.chain(b)
	if ha == "" || hb == "" {
		return PathUnknown
	}
	if ha == hb {
		common := 0
		for common < len(ca)-1 && common < len(cb)-1 && ca[common] == cb[common] {
			common++
		}
		switch {
		case common == 0:
			return PathPHB
		// One bridge port (or one switch: one upstream and two downstream ports) between them.
		case len(ca)-common <= 2 && len(cb)-common <= 2:
			return PathPIX
		default:
			return PathPXB
		}
	}
	na, nb := s.pciNUMA(a), s.pciNUMA(b)
	if na >= 0 && na == nb {
		return PathNode
	}
	return PathSys
}

// nics lists the network interfaces and verbs devices that belong to a PCI or virtio device.
func (s sysfs) nics() []NIC {
	nics := []NIC{}
	rdma := map[string]string{} // bus id → verbs device
	for _, dev := range s.Names("sys/class/infiniband") {
		if bus := s.busOf("sys/class/infiniband", dev); bus != "" {
			rdma[bus] = dev
		}
	}
	seen := map[string]bool{}
	for _, name := range s.Names("sys/class/net") {
		if s.Resolve("sys/class/net", name, "device") == "" {
			continue
		}
		n := NIC{Name: name, Kind: "ethernet", BusID: s.busOf("sys/class/net", name),
			Up: s.Read("sys/class/net", name, "operstate") == "up"}
		if s.Number(1, "sys/class/net", name, "type") == 32 {
			n.Kind = "infiniband"
		}
		if speed := s.Number(0, "sys/class/net", name, "speed"); speed > 0 {
			n.SpeedMbps = speed
		}
		n.NUMA, n.RDMA = s.pciNUMA(n.BusID), rdma[n.BusID]
		seen[n.RDMA] = true
		nics = append(nics, n)
	}
	// Verbs devices without a network interface (InfiniBand without IPoIB).
	for _, dev := range s.Names("sys/class/infiniband") {
		if seen[dev] {
			continue
		}
		bus := s.busOf("sys/class/infiniband", dev)
		n := NIC{Name: dev, Kind: "infiniband", BusID: bus, NUMA: s.pciNUMA(bus), RDMA: dev}
		n.Up = strings.Contains(s.Read("sys/class/infiniband", dev, "ports/1/state"), "ACTIVE")
		if s.Read("sys/class/infiniband", dev, "ports/1/link_layer") == "Ethernet" {
			n.Kind = "ethernet"
		}
		if rate, _, ok := strings.Cut(s.Read("sys/class/infiniband", dev, "ports/1/rate"), " "); ok {
			gbps, _ := strconv.Atoi(rate)
			n.SpeedMbps = gbps * 1000
		}
		nics = append(nics, n)
	}
	return nics
}

// busOf returns the PCI address of a class device; virtio and similar devices are found through their parents.
func (s sysfs) busOf(class, name string) string {
	return pciOf(s.Resolve(class, name, "device"))
}
