package cuda

import (
	"slices"
	"sync"

	"github.com/goccl/goccl/internal/driver"
	"github.com/goccl/goccl/internal/driver/nvml"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/internal/sysfile"
)

// Link is the connection by which kernels of one GPU access memory of another. Greater is better.
type Link uint8

// The links.
const (
	NoLink  Link = iota // no access
	PCIe                // or unknown: stores of up to 8 bytes arrive as a whole
	NVLink              // stores of whole lines of 128 bytes arrive as a whole too
	SameGPU             // no link is needed
)

func (l Link) String() string {
	return [...]string{"no peer access", "PCIe", "NVLink", "the same GPU"}[min(l, SameGPU)]
}

// readNVML reads NVML once: links do not change while a process runs.
var readNVML = sync.OnceValues(nvml.Read)

// LinkTo returns the link from d to the GPU at a PCI address (Properties.BusID), which need not be visible to this
// process.
//
// If the GPU is visible, LinkTo asks the CUDA driver first, which is cheap: only NVLink makes all atomics native. If
// the GPU is not visible, or CUDA reports no NVLink, it asks NVML.
func (d *Device) LinkTo(busID string) (Link, error) {
	own := d.gpu.props.BusID
	if busID == own {
		return SameGPU, nil
	}
	if peer, err := ordinalOf(busID); err != nil {
		return NoLink, err
	} else if peer >= 0 {
		ok, err := driver.CanAccessPeer(d.gpu.ordinal, peer)
		if err != nil || !ok {
			return NoLink, fail(d.gpu.ordinal, "query peer access", err)
		}
		if allAtomics(d.gpu.ordinal, peer) {
			return NVLink, nil
		}
		return max(PCIe, linkOf(own, busID)), nil
	}
	return linkOf(own, busID), nil
}

// ordinalOf returns the ordinal of a GPU that is visible to this process, or -1.
func ordinalOf(busID string) (int, error) {
	n, err := driver.DeviceCount()
	if err != nil {
		return -1, err
	}
	for i := range n {
		id, err := driver.DeviceBusID(i)
		if err != nil {
			return -1, err
		}
		if nvml.BusID(id) == busID {
			return i, nil
		}
	}
	return -1, nil
}

// allAtomics reports whether every atomic of a GPU is native on memory of a peer. Over PCIe some are native; newer
// drivers report that, older ones report none.
func allAtomics(from, to int) bool {
	native, err := driver.DevicePeerAttribute(from, to, driver.PeerAtomics)
	if err != nil || native == 0 {
		return false
	}
	partial, err := driver.DevicePeerAttribute(from, to, driver.PeerPartialAtomics)
	return err != nil || partial == 0
}

// linkOf returns the link that NVML reports, or PCIe if it reports nothing: mapping the memory then shows whether there
// is access.
func linkOf(own, other string) Link {
	info, err := readNVML()
	if err != nil {
		return PCIe
	}
	find := func(id string) int {
		return slices.IndexFunc(info.GPUs, func(g nvml.GPU) bool { return g.BusID == id })
	}
	a, b := find(own), find(other)
	switch {
	case a < 0 || b < 0:
		return PCIe
	case info.Known[a][b] && !info.P2P[a][b]:
		return NoLink
	case info.NVLinks(a, b) > 0:
		return NVLink
	}
	return PCIe
}

// Node returns the NUMA node of the GPU, or -1 if it is not known.
func (d *Device) Node() int {
	return sysfile.Host.Number(-1, "sys/bus/pci/devices", d.gpu.props.BusID, "numa_node")
}

// Apart returns how far the GPU at a PCI address is from d on PCIe, as NVML knows it; P2PAny if it does not.
func (d *Device) Apart(busID string) setting.P2PLevel {
	info, err := readNVML()
	if err != nil {
		return setting.P2PAny
	}
	find := func(id string) int {
		return slices.IndexFunc(info.GPUs, func(g nvml.GPU) bool { return g.BusID == id })
	}
	a, b := find(d.gpu.props.BusID), find(busID)
	if a < 0 || b < 0 {
		return setting.P2PAny
	}
	switch level := info.Ancestor[a][b]; {
	case level == nvml.Unknown:
		return setting.P2PAny
	case level <= nvml.Single:
		return setting.P2PSwitch
	case level <= nvml.Multiple:
		return setting.P2PSwitches
	case level <= nvml.Node:
		return setting.P2PHostBridge
	}
	return setting.P2PSystem
}
