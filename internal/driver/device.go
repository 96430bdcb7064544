package driver

import "bytes"

// Attribute is a CUdevice_attribute.
type Attribute int

// The attributes that goccl reads.
const (
	MaxSharedPerBlock      Attribute = 8
	ClockRate              Attribute = 13 // kHz
	MultiprocessorCount    Attribute = 16
	L2CacheSize            Attribute = 38 // bytes
	MaxThreadsPerMP        Attribute = 39
	AsyncEngineCount       Attribute = 40
	ComputeMajor           Attribute = 75
	ComputeMinor           Attribute = 76
	MaxSharedPerMP         Attribute = 81
	MaxSharedPerBlockOptin Attribute = 97
	VMMSupported           Attribute = 102
	PosixFDSupported       Attribute = 103
	RDMAWithVMM            Attribute = 110
	ClusterLaunch          Attribute = 120
	StreamMemOps64         Attribute = 122
)

// PeerAttribute is a CUdevice_P2PAttribute.
type PeerAttribute int

// The peer attributes.
const (
	PeerAccess         PeerAttribute = 2
	PeerAtomics        PeerAttribute = 3
	PeerPartialAtomics PeerAttribute = 5 // some atomics are native, but not all
)

// DeviceCount returns the number of GPUs that CUDA_VISIBLE_DEVICES leaves.
//
//cu:call DeviceCount() (n int) = cuDeviceGetCount(n)

// DeviceName returns a name like "NVIDIA H200".
//
//cu:call DeviceName = cuDeviceGetName(p, a1, a0)
func DeviceName(ordinal int) (string, error) { return deviceString(opDeviceName, ordinal) }

// DeviceBusID returns a PCI address like "0000:3B:00.0".
//
//cu:call DeviceBusID = cuDeviceGetPCIBusId(p, a1, a0)
func DeviceBusID(ordinal int) (string, error) { return deviceString(opDeviceBusID, ordinal) }

func deviceString(o op, ordinal int) (string, error) {
	var buf [256]byte
	a := args{uint64(ordinal), uint64(len(buf))}
	if err := call(o, 0, &a, &buf[0], nil); err != nil {
		return "", err
	}
	s, _, _ := bytes.Cut(buf[:], []byte{0})
	return string(s), nil
}

// DeviceMemory is the total memory of the device in bytes.
//
//cu:call DeviceMemory(ordinal int) (size int64) = cuDeviceTotalMem_v2(size, ordinal)

// DeviceAttribute reads one attribute of a device.
//
//cu:call DeviceAttribute(ordinal int, attr Attribute) (value int) = cuDeviceGetAttribute(value, attr, ordinal)

// CanAccessPeer reports whether kernels on device can load from and store to memory of peer.
//
//cu:call CanAccessPeer(device, peer int) (can bool) = cuDeviceCanAccessPeer(can, device, peer)

// DevicePeerAttribute reads an attribute of the link between two devices.
//
//cu:call DevicePeerAttribute(from, to int, attr PeerAttribute) (n int) = cuDeviceGetP2PAttribute(n, attr, from, to)
