package cuda

import (
	"slices"
	"sync"

	"github.com/goccl/goccl/internal/driver"
	"github.com/goccl/goccl/internal/driver/nvml"
)

// Link is how kernels of one GPU reach memory of another. Greater is better.
type Link uint8

// The links.
const (
	NoLink  Link = iota // they cannot
	PCIe                // or what nobody knows to be better: stores of up to 8 bytes arrive as a whole
	NVLink              // stores of whole lines of 128 bytes do, too
	SameGPU             // there is nothing between
)

func (l Link) String() string {
	return [...]string{"no peer access", "PCIe", "NVLink", "the same GPU"}[min(l, SameGPU)]
}

// readNVML is read once: a machine is not wired anew while a process runs.
var readNVML = sync.OnceValues(nvml.Read)

// LinkTo is how d reaches the GPU at a PCI address (Properties.BusID), which this process need not see.
//
// The CUDA driver knows of GPUs that the process sees, and costs nothing: only NVLink has all native atomics. Of others, and where CUDA knows of no NVLink, NVML does.
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

// ordinalOf is the ordinal of a GPU that this process sees, or -1.
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

// allAtomics reports whether every atomic of a GPU is native on memory of a peer. Some are over PCIe, which newer drivers say; older ones say none is.
func allAtomics(from, to int) bool {
	native, err := driver.DevicePeerAttribute(from, to, driver.PeerAtomics)
	if err != nil || native == 0 {
		return false
	}
	partial, err := driver.DevicePeerAttribute(from, to, driver.PeerPartialAtomics)
	return err != nil || partial == 0
}

// linkOf is what NVML says; PCIe where it says nothing: then mapping the memory shows whether there is access.
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
