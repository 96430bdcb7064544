package tcp

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

// Memory is what peers may write. Offsets were checked against Size, and for words against the alignment of 8, before a method is called.
type Memory interface {
	Size() int64
	// Write copies p to off.
	Write(p []byte, off int64) error
	Add(off int64, delta uint64) error
	Store(off int64, value uint64) error
	// Signal adds one to the token's counter at off and wakes its sleepers.
	Signal(off int64) error
}

// HostMemory is memory that the processor can write: of the host device, or pinned for a GPU.
type HostMemory struct {
	ptr   device.Ptr
	size  int64
	token bool
}

// NewHostMemory is the memory of size bytes at ptr. token says that it holds semaphore tokens, whose sleepers a signal wakes.
func NewHostMemory(ptr device.Ptr, size int64, token bool) *HostMemory {
	return &HostMemory{ptr, size, token}
}

// Size is in bytes.
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

// Add is an atomic addition.
func (m *HostMemory) Add(off int64, delta uint64) error {
	m.word(off).Add(delta)
	return nil
}

// Store is an atomic store.
func (m *HostMemory) Store(off int64, value uint64) error {
	m.word(off).Store(value)
	return nil
}

// Signal needs a token: off aligned to a cell that lies wholly in the memory.
func (m *HostMemory) Signal(off int64) error {
	if !m.token || off%wait.CellSize != 0 || off > m.size-wait.CellSize {
		return fmt.Errorf("%w: no semaphore at offset %d", transport.ErrBounds, off)
	}
	wait.At(unsafe.Pointer(unsafe.SliceData(m.view(off, wait.CellSize)))).Add(1)
	return nil
}

// DeviceMemory is memory that only its device can write. Words are changed by reading and writing back under a lock: atomic among peers
// that come through this Node, not against kernels. Semaphores of this transport lie in HostMemory instead.
type DeviceMemory struct {
	dev  device.Device
	ptr  device.Ptr
	size int64
	mu   sync.Mutex
}

// NewDeviceMemory is the memory of size bytes at ptr on dev.
func NewDeviceMemory(dev device.Device, ptr device.Ptr, size int64) *DeviceMemory {
	return &DeviceMemory{dev: dev, ptr: ptr, size: size}
}

// Size is in bytes.
func (m *DeviceMemory) Size() int64 { return m.size }

// Write copies p to off and returns when it is there.
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

// Signal is Add of one; a kernel polls the word, nobody sleeps on it.
func (m *DeviceMemory) Signal(off int64) error { return m.Add(off, 1) }
