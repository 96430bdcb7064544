package core

import (
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/job/topo"
)

// DeviceCapability returns the compute capability of a GPU and its NUMA node: 0, 0 and -1 where there is none.
func DeviceCapability(h Handle) (major, minor, numa int, err error) {
	d, err := devices.get(h)
	if err != nil {
		return 0, 0, -1, err
	}
	g, ok := d.device.(*cuda.Device)
	if !ok {
		return 0, 0, -1, nil
	}
	p := g.Properties()
	return p.Major, p.Minor, topo.NUMANode(p.BusID), nil
}
