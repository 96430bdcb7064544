package cuda

import (
	"github.com/goccl/goccl/internal/driver"
	"github.com/goccl/goccl/internal/driver/nvml"
)

// Properties are the facts of a GPU that determine kernels and their shapes. Sizes are in bytes.
type Properties struct {
	Name           string
	BusID          string // like "0000:3b:00.0", as in topo.GPU
	Major, Minor   int    // compute capability
	SMs            int
	ClockKHz       int
	L2             int
	SharedPerBlock int // without opting in
	SharedOptin    int // with SetMaxDynamicShared
	SharedPerSM    int
	ThreadsPerSM   int
	CopyEngines    int
	Memory         int64
	VMM            bool // virtual memory management with export as a file descriptor
	Clusters       bool
	StreamMemOps   bool // 64-bit WriteValue and WaitValue
	RDMA           bool // a NIC may reach VMM memory
}

func readProperties(ordinal int) (Properties, error) {
	var p Properties
	var err error
	get := func(a driver.Attribute) int {
		v, e := driver.DeviceAttribute(ordinal, a)
		if e != nil && err == nil {
			err = e
		}
		return v
	}
	// An old driver may lack the attribute; then the result is false.
	has := func(a driver.Attribute) bool {
		v, e := driver.DeviceAttribute(ordinal, a)
		return e == nil && v != 0
	}
	p.Major, p.Minor = get(driver.ComputeMajor), get(driver.ComputeMinor)
	p.SMs, p.ClockKHz, p.L2 = get(driver.MultiprocessorCount), get(driver.ClockRate), get(driver.L2CacheSize)
	p.SharedPerBlock, p.SharedOptin, p.SharedPerSM = get(driver.MaxSharedPerBlock), get(driver.MaxSharedPerBlockOptin),
		get(driver.MaxSharedPerMP)
	p.ThreadsPerSM, p.CopyEngines = get(driver.MaxThreadsPerMP), get(driver.AsyncEngineCount)
	p.VMM = has(driver.VMMSupported) && has(driver.PosixFDSupported)
	p.Clusters, p.StreamMemOps, p.RDMA = has(driver.ClusterLaunch), has(driver.StreamMemOps64), has(driver.RDMAWithVMM)
	if err != nil {
		return p, err
	}
	if p.Name, err = driver.DeviceName(ordinal); err != nil {
		return p, err
	}
	if p.BusID, err = driver.DeviceBusID(ordinal); err != nil {
		return p, err
	}
	p.BusID = nvml.BusID(p.BusID)
	p.Memory, err = driver.DeviceMemory(ordinal)
	return p, err
}
