// Package device is the seam between goccl and what runs it: memory, streams, events and the handles by which another process maps
// an allocation. There are two devices: device/host (shared memory and goroutines; always present) and device/cuda (a GPU).
//
// # Lifetime and threads
//
// A Device, Stream or Allocation may be used by several goroutines. Whoever allocates, imports or makes a stream closes it; closing twice
// is harmless. Closing a Device ends what was made from it. No call waits for ever: those that can block take a context.
package device

import (
	"context"
	"errors"
	"fmt"
	"unsafe"
)

// Kind tells the two devices apart.
type Kind uint8

// The kinds. The zero Kind is invalid, so that a forgotten field is noticed.
const (
	Host Kind = iota + 1
	CUDA
)

// String is "host" or "cuda".
func (k Kind) String() string {
	switch k {
	case Host:
		return "host"
	case CUDA:
		return "cuda"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// ID names one device of this machine: its kind and its ordinal (the CUDA ordinal, or the host device's number).
type ID struct {
	Kind  Kind
	Index int
}

// String is like "cuda:3".
func (id ID) String() string { return fmt.Sprintf("%s:%d", id.Kind, id.Index) }

// Ptr is an address in the memory of some device. On the host device it can be dereferenced (see Bytes); on CUDA it is a CUdeviceptr,
// which peers of the same process share and other processes must import.
type Ptr uintptr

// Add is the address n bytes further.
func (p Ptr) Add(n int64) Ptr { return Ptr(uintptr(p) + uintptr(n)) }

// Bytes views n bytes at a host address. The memory must be mapped (not from the Go heap, or kept alive and pinned by the caller) for as
// long as the slice is used.
func Bytes(p Ptr, n int64) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}

// Errors that every device returns, wrapped with what, where and how to mend it.
var (
	ErrClosed       = errors.New("device: closed")
	ErrNotShareable = errors.New("device: memory cannot be shared with another process")
	ErrNoDevice     = errors.New("device: no such device")
	ErrOutOfMemory  = errors.New("device: out of memory")
	ErrUnsupported  = errors.New("device: not supported by this device")
)

// Device makes memory and streams.
type Device interface {
	ID() ID
	// Name is a product name, like "NVIDIA H200", or "host".
	Name() string
	// Alloc returns size bytes (rounded up to the granularity), zeroed, aligned to at least 4096, that can be exported to other processes.
	Alloc(size int64) (Allocation, error)
	// Export describes the allocation that holds p, so that another process on this machine (or another device of this process) can
	// Import it. The FD in the handle, if any, belongs to the caller, who closes it. ErrNotShareable when p cannot be shared.
	Export(p Ptr) (Handle, error)
	// Import maps an exported allocation so that this device can load from and store to it. It takes no ownership of the handle's FD.
	// Importing what this process itself exported yields the original address.
	Import(h Handle) (Allocation, error)
	// NewStream makes an ordered queue of work.
	NewStream() (Stream, error)
	// WrapStream adopts a foreign stream (a CUstream; 0 is the default stream) without owning it. The host device maps 0 to a synchronous
	// stream: work runs in the caller.
	WrapStream(raw uintptr) (Stream, error)
	// CopyIn and CopyOut move bytes between Go memory and device memory and return when done.
	CopyIn(dst Ptr, src []byte) error
	CopyOut(dst []byte, src Ptr) error
	// Close frees all that was made from the device and is still open.
	Close() error
}

// Allocation is memory of a device, or memory of another device or process that is mapped here.
type Allocation interface {
	Ptr() Ptr
	// Size is the usable size in bytes.
	Size() int64
	// Close unmaps, and frees when owned.
	Close() error
}

// HandleType says how a Handle crosses to another process.
type HandleType uint8

// The handle types.
const (
	// HandleFD: FD is a memfd (host) or a POSIX file descriptor of a VMM allocation (CUDA).
	HandleFD HandleType = iota + 1
	// HandleLegacyIPC: IPC is a CUipcMemHandle of a cuMemAlloc/cudaMalloc allocation.
	HandleLegacyIPC
	// HandleLocal: only valid in the exporting process (heap memory of the host device).
	HandleLocal
)

// Handle describes an allocation for Import. Offset is where the exported pointer lies inside the allocation of Size bytes.
type Handle struct {
	Type   HandleType
	Owner  ID
	FD     int
	IPC    [64]byte
	Base   Ptr // address of the allocation in the exporter
	Size   int64
	Offset int64
	// Unique tells allocations of one process apart, also when an address is used again.
	Unique uint64
}

// Stream is an ordered queue of work on one device. Work on different streams is unordered.
type Stream interface {
	Device() Device
	// Raw is the CUstream, or a number for the host device.
	Raw() uintptr
	// Copy enqueues a copy of n bytes between any two addresses that the device can reach.
	Copy(dst, src Ptr, n int64) error
	// Memset enqueues n bytes of value.
	Memset(dst Ptr, value byte, n int64) error
	// Record enqueues an event.
	Record() (Event, error)
	// WaitEvent makes later work wait for e (of any stream of the same kind of device).
	WaitEvent(e Event) error
	// Synchronize waits until all enqueued work is done, ctx ends, or the work fails.
	Synchronize(ctx context.Context) error
	// Close waits for nothing; enqueued work still runs. A wrapped stream is only let go.
	Close() error
}

// Event marks a point in a stream.
type Event interface {
	// Wait blocks until the point is reached or ctx ends.
	Wait(ctx context.Context) error
	// Since is the time in seconds from start to this event, both reached.
	Since(start Event) (float64, error)
	Close() error
}
