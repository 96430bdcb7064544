package topo

import (
	"context"
	"fmt"

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
