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
func DeviceCount() (int, error) { return get[int](0, opDeviceCount, args{}) }

// DeviceName returns a name like "NVIDIA H200".
func DeviceName(ordinal int) (string, error) { return deviceString(opDeviceName, ordinal) }

// DeviceBusID returns a PCI address like "0000:3B:00.0".
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
func DeviceMemory(ordinal int) (int64, error) {
	return get[int64](0, opDeviceMemory, args{uint64(ordinal)})
}

// DeviceAttribute reads one attribute of a device.
func DeviceAttribute(ordinal int, attr Attribute) (int, error) {
	return get[int](0, opDeviceAttribute, args{uint64(ordinal), uint64(attr)})
}

// CanAccessPeer reports whether kernels on device can load from and store to memory of peer.
func CanAccessPeer(device, peer int) (bool, error) {
	a := args{uint64(device), uint64(peer)}
	err := call(opCanAccessPeer, 0, &a, nil, nil)
	return a[0] != 0, err
}

// DevicePeerAttribute reads an attribute of the link from device to peer.
func DevicePeerAttribute(device, peer int, attr PeerAttribute) (int, error) {
	return get[int](0, opPeerAttribute, args{uint64(device), uint64(peer), uint64(attr)})
}
