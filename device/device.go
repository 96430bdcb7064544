// Package device is the interface between goccl and the hardware: memory, streams, events, and the handles by which
// another process maps an allocation. There are two devices: device/host (shared memory and goroutines; always present)
// and device/cuda (a GPU).
//
// # Lifetime and threads
//
// Several goroutines may use a Device, Stream or Allocation. The caller that allocates, imports or makes a stream
// closes it; closing twice is harmless. Closing a Device closes everything made from it. No call blocks forever: calls
// that can block take a context.
package device

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"unsafe"
)

// Kind is the type of a device.
type Kind uint8

// The zero Kind is invalid, so that a forgotten field is detected.
const (
	Host Kind = iota + 1
	CUDA
)

// String returns "host" or "cuda".
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

// String returns a name like "cuda:3".
func (id ID) String() string { return fmt.Sprintf("%s:%d", id.Kind, id.Index) }

// Ptr is an address in device memory. On the host device it can be dereferenced (see Bytes). On CUDA it is a
// CUdeviceptr, which is valid in the whole process; other processes must import the memory.
type Ptr uintptr

// Add returns the address n bytes further.
func (p Ptr) Add(n int64) Ptr { return Ptr(uintptr(p) + uintptr(n)) }

// Bytes returns n bytes at a host address as a slice. The memory must stay mapped while the slice is used. It must not
// be on the Go heap, unless the caller keeps it alive and pinned.
func Bytes(p Ptr, n int64) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}

// BytesOf returns the memory of a slice of numbers, for CopyIn and CopyOut.
func BytesOf[T ~int8 | ~uint8 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64](v []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(one)))
}

// Fill writes n bytes of value, in pieces: a buffer as large as its target would be new memory in each call.
func Fill(d Device, dst Ptr, value byte, n int64) error {
	piece := bytes.Repeat([]byte{value}, int(min(n, 1<<18)))
	for at := int64(0); at < n; at += int64(len(piece)) {
		if err := d.CopyIn(dst.Add(at), piece[:min(n-at, int64(len(piece)))]); err != nil {
			return err
		}
	}
	return nil
}

// Errors that every device returns. They are wrapped with the operation, the place and the remedy.
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
	// Alloc returns size bytes (rounded up to the granularity), zeroed, aligned to at least 4096, that can be exported
	// to other processes.
	Alloc(size int64) (Allocation, error)
	// Export describes the allocation that holds p, so that another process on this machine, or another device of this
	// process, can Import it. The caller owns the handle's FD, if any, and closes it. Export fails with ErrNotShareable
	// if p cannot be shared.
	Export(p Ptr) (Handle, error)
	// Import maps an exported allocation so that this device can load from and store to it. It takes no ownership of
	// the handle's FD. Importing memory that this process exported returns the original address.
	Import(h Handle) (Allocation, error)
	// Reserve reserves size bytes of addresses, in which exported allocations can be mapped at chosen places.
	Reserve(size int64) (Reservation, error)
	// NewStream makes an ordered queue of work.
	NewStream() (Stream, error)
	// WrapStream adopts a foreign stream (a CUstream; 0 is the default stream) without owning it. The host device maps
	// 0 to a synchronous stream, which runs its work in the caller.
	WrapStream(raw uintptr) (Stream, error)
	// CopyIn and CopyOut move bytes between Go memory and device memory and return when done.
	CopyIn(dst Ptr, src []byte) error
	CopyOut(dst []byte, src Ptr) error
	// Close frees everything that was made from the device and is still open.
	Close() error
}

// Allocation is memory of a device, or memory of another device or process that is mapped here.
type Allocation interface {
	Ptr() Ptr
	// Size is the usable size in bytes.
	Size() int64
	// Close unmaps the memory, and frees it if this device owns it.
	Close() error
}

// Reservation is a range of addresses of a device. Memory that is mapped there can be used like memory of Import.
type Reservation interface {
	// Ptr is the start of the range, a multiple of 2 MiB.
	Ptr() Ptr
	// Map maps an exported allocation at an offset, a multiple of 2 MiB. It takes no ownership of the handle's FD. A
	// handle without a FD cannot be mapped at a chosen place: the error wraps ErrUnsupported.
	Map(offset int64, h Handle) error
	// Unmap unmaps everything and keeps the range, so that memory can be mapped at the same addresses again. Work that
	// uses the memory must be done.
	Unmap() error
	// Close unmaps everything and gives up the range. Work that uses the memory must be done.
	Close() error
}

// HandleType is the way in which a Handle is sent to another process.
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

// Handle describes an allocation for Import. Offset is the offset of the exported pointer in the allocation of Size
// bytes.
type Handle struct {
	Type   HandleType
	Owner  ID
	FD     int
	IPC    [64]byte
	Base   Ptr // address of the allocation in the exporter
	Size   int64
	Offset int64
	// Unique distinguishes the allocations of one process, even if an address is reused.
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
	// WaitEvent makes later work wait for e, which may be of any stream of the same kind of device.
	WaitEvent(e Event) error
	// Synchronize waits until all enqueued work is done, ctx ends, or the work fails.
	Synchronize(ctx context.Context) error
	// Close does not wait; enqueued work still runs. A wrapped stream is only released.
	Close() error
}

// Join makes later work on s wait for all work so far on other.
func Join(s, other Stream) error {
	ev, err := other.Record()
	if err != nil {
		return err
	}
	return errors.Join(s.WaitEvent(ev), ev.Close())
}

// Timed returns the time in seconds between two events on s, around the work that run enqueues. wait waits for that
// work. The host's clock would not be exact enough: a host that waits for a GPU may sleep a millisecond too long.
func Timed(s Stream, run, wait func() error) (seconds float64, err error) {
	begin, err := s.Record()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, begin.Close()) }()
	if err := run(); err != nil {
		return 0, err
	}
	end, err := s.Record()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, end.Close()) }()
	if err := wait(); err != nil {
		return 0, err
	}
	return end.Since(begin)
}

// Event marks a point in a stream.
type Event interface {
	// Wait blocks until the point is reached or ctx ends.
	Wait(ctx context.Context) error
	// Since returns the time in seconds from start to this event; both must be reached.
	Since(start Event) (float64, error)
	Close() error
}
