package link

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport"
)

// Memory is memory that peers may write. Offsets are checked against Size, and for words the alignment of 8, before
// a method is called.
type Memory interface {
	Size() int64
	// Write copies p to off.
	Write(p []byte, off int64) error
	Add(off int64, delta uint64) error
	Store(off int64, value uint64) error
	// Signal adds one to the token's counter at off and wakes its sleepers.
	Signal(off int64) error
}

// HostMemory is memory that the processor can write: memory of the host device, or memory pinned for a GPU.
type HostMemory struct {
	ptr   device.Ptr
	size  int64
	token bool
}

// NewHostMemory returns the memory of size bytes at ptr. With token, it contains semaphore tokens, whose sleepers a
// signal wakes.
func NewHostMemory(ptr device.Ptr, size int64, token bool) *HostMemory {
	return &HostMemory{ptr, size, token}
}

// Size returns the size in bytes.
func (m *HostMemory) Size() int64 { return m.size }

func (m *HostMemory) view(off, n int64) []byte { return device.Bytes(m.ptr.Add(off), n) }

// Write copies p to off.
func (m *HostMemory) Write(p []byte, off int64) error {
	copy(m.view(off, int64(len(p))), p)
	return nil
}

func (m *HostMemory) word(off int64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(m.view(off, 8))))
}

// Add adds atomically.
func (m *HostMemory) Add(off int64, delta uint64) error {
	m.word(off).Add(delta)
	return nil
}

// Store stores atomically.
func (m *HostMemory) Store(off int64, value uint64) error {
	m.word(off).Store(value)
	return nil
}

// Signal requires a token: off must be aligned to a cell that lies completely in the memory.
func (m *HostMemory) Signal(off int64) error {
	if !m.token || off%wait.CellSize != 0 || off > m.size-wait.CellSize {
		return fmt.Errorf("%w: no semaphore at offset %d", transport.ErrBounds, off)
	}
	wait.At(unsafe.Pointer(unsafe.SliceData(m.view(off, wait.CellSize)))).Add(1)
	return nil
}

// DeviceMemory is memory that only its device can write. A word is changed by a read and a write under a lock: atomic
// among the peers of this process, not with respect to kernels. Semaphores of networks lie in HostMemory instead.
type DeviceMemory struct {
	dev  device.Device
	ptr  device.Ptr
	size int64
	mu   sync.Mutex
}

// NewDeviceMemory returns the memory of size bytes at ptr on dev.
func NewDeviceMemory(dev device.Device, ptr device.Ptr, size int64) *DeviceMemory {
	return &DeviceMemory{dev: dev, ptr: ptr, size: size}
}

// Size returns the size in bytes.
func (m *DeviceMemory) Size() int64 { return m.size }

// Write copies p to off and returns when the copy is complete.
func (m *DeviceMemory) Write(p []byte, off int64) error { return m.dev.CopyIn(m.ptr.Add(off), p) }

// Add reads, adds and writes back under the memory's lock.
func (m *DeviceMemory) Add(off int64, delta uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b [8]byte
	if err := m.dev.CopyOut(b[:], m.ptr.Add(off)); err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(b[:], binary.LittleEndian.Uint64(b[:])+delta)
	return m.dev.CopyIn(m.ptr.Add(off), b[:])
}

// Store writes the word.
func (m *DeviceMemory) Store(off int64, value uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], value)
	return m.dev.CopyIn(m.ptr.Add(off), b[:])
}

// Signal adds one. Kernels poll the word, so there is no sleeper to wake.
func (m *DeviceMemory) Signal(off int64) error { return m.Add(off, 1) }
