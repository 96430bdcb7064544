package primitive

import "github.com/goccl/goccl/device"

// The device handles are passed to kernels. Each struct has the byte layout of its namesake in
// kernels/include/goccl/handle.cuh, little endian and 8-aligned; handle_test.go and a CUDA static_assert check both
// against the same table. Pointers are addresses on the device that runs the kernel.

// Sizes of the handles in bytes.
const (
	AbortBlockSize              = 64
	SemaphoreHandleSize         = 32
	BaseMemoryChannelHandleSize = 32
	MemoryChannelHandleSize     = 56
	FifoHandleSize              = 48
	BasePortChannelHandleSize   = 104
	PortChannelHandleSize       = 144
	SwitchChannelHandleSize     = 32
)

// AbortBlock lets the host end waits in kernels. It is host memory mapped for every device of its Context.
//
// The host writes Abort and SpinLimitNs. A kernel that gives up writes Detail, Peer and Op and then Reported.
type AbortBlock struct {
	Abort       uint32 // 0: run; otherwise the Status that every wait returns
	Reported    uint32 // the Status with which a wait failed without Abort
	SpinLimitNs uint64 // 0: no device deadline
	Detail      uint64 // the address that the wait polled
	Peer        uint32
	Op          uint32
	_           [32]byte
}

// SemaphoreHandle is one side of a Semaphore.
type SemaphoreHandle struct {
	Inbound       device.Ptr // u64: the peer adds to it
	RemoteInbound device.Ptr // u64: the peer's Inbound as mapped here; 0 if only a proxy signals
	Expected      device.Ptr // u64: number of consumed signals; private to this side
	Abort         device.Ptr // AbortBlock
}

// BaseMemoryChannelHandle signals and waits; it moves no data.
type BaseMemoryChannelHandle struct {
	Semaphore SemaphoreHandle
}

// MemoryChannelHandle moves bytes by load and store.
type MemoryChannelHandle struct {
	Semaphore    SemaphoreHandle
	Dst          device.Ptr // the peer's memory, mapped here
	Src          device.Ptr // local memory
	PacketBuffer device.Ptr // local memory to which the peer writes packets
}

// FifoHandle is the kernel's end of a Fifo.
type FifoHandle struct {
	Ring      device.Ptr // triggers, host memory
	Head      device.Ptr // u64, device memory: the next position
	Tail      device.Ptr // u64, host memory: positions that the host consumed
	TailCache device.Ptr // u64, device memory: an earlier value of Tail
	Size      uint32     // slots, a power of two
	_         uint32
	Abort     device.Ptr
}

// BasePortChannelHandle requests transfers from a proxy, between memories given by id.
type BasePortChannelHandle struct {
	Semaphore   SemaphoreHandle
	Fifo        FifoHandle
	FlushDone   device.Ptr // u64, host memory: every position below it is flushed
	SemaphoreID uint32
	_           uint32
	Order       device.Ptr // two u64, device memory: see goccl::PortOrder; 0 if the proxy does everything
}

// PortChannelHandle is a BasePortChannelHandle with a fixed destination and source.
type PortChannelHandle struct {
	BasePortChannelHandle
	Dst     uint32
	Src     uint32
	DstData device.Ptr // where the GPU that runs the kernel addresses the memories; 0 without Order
	SrcData device.Ptr
	DstSize uint64
	SrcSize uint64
}

// SwitchChannelHandle reduces from and broadcasts to the same range of every rank's memory.
type SwitchChannelHandle struct {
	Peers  device.Ptr // NRanks addresses in device memory, in rank order, own address included
	NRanks uint32
	Rank   uint32
	Size   uint64 // bytes
	Abort  device.Ptr
}
