package nvlink

import "github.com/goccl/goccl/internal/setting"

// LinkKind is a kind of link between GPUs of a host, best first. The kernels of a communicator use one link kind: the
// worst of its pairs of ranks.
type LinkKind uint8

// The kinds of links.
const (
	// NVLink: whole lines of 128 bytes arrive as a whole, so every protocol works.
	NVLink LinkKind = iota
	// PCIe: stores into the peer's memory, of which 8 bytes arrive as a whole.
	PCIe
	// HostMemory: arenas in page-locked memory of the host, which all GPUs map.
	HostMemory
	// Network: no memory is shared.
	Network
)

func (r LinkKind) String() string {
	return [...]string{"NVLink", "PCIe", "host memory", "network"}[min(r, Network)]
}

// table is the GPU name of the embedded tables of the link kinds below NVLink.
func (r LinkKind) table() string { return [...]string{"", "PCIe", "host memory", ""}[min(r, Network)] }

// forced is the link kind that GOCCL_LINK names.
func forced(l setting.Link) (r LinkKind, name string) {
	switch l {
	case setting.LinkPCIe:
		return PCIe, "pcie"
	case setting.LinkHost:
		return HostMemory, "host"
	case setting.LinkNet:
		return Network, "net"
	}
	return NVLink, "nvlink"
}
