package primitive

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
)

// pointer converts an address of mapped memory to a pointer. The memory never belongs to the Go heap.
func pointer(p device.Ptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

func word64(p device.Ptr) *atomic.Uint64 { return (*atomic.Uint64)(pointer(p)) }
func word32(p device.Ptr) *atomic.Uint32 { return (*atomic.Uint32)(pointer(p)) }
func cellAt(p device.Ptr) *wait.Cell     { return wait.At(pointer(p)) }

// Offsets in an AbortBlock for atomic access.
const (
	abortReported = 4
	abortSpin     = 8
	abortDetail   = 16
	abortPeer     = 24
	abortOp       = 28
	// abortActive counts the host kernels that are in a wait. It lies in the padding, which GPUs do not touch.
	abortActive = 32
)

// abortBlock is the Context's AbortBlock: one page of host memory, which is page-locked for all GPUs when a GPU first
// needs it.
type abortBlock struct {
	mem []byte
	ptr device.Ptr

	mu   sync.Mutex
	undo func() error // unlocks the page; nil while it is not locked
}

func newAbortBlock(spinLimit time.Duration) (*abortBlock, error) {
	mem, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("primitive: map the abort block: %w", err)
	}
	b := &abortBlock{mem: mem, ptr: device.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))}
	b.setSpinLimit(spinLimit)
	return b, nil
}

func (b *abortBlock) setSpinLimit(d time.Duration) {
	word64(b.ptr.Add(abortSpin)).Store(uint64(max(d, 0)))
}

func (b *abortBlock) word() *atomic.Uint32 { return word32(b.ptr) }

// raise sets the reason unless a reason is set already.
func (b *abortBlock) raise(s Status) { b.word().CompareAndSwap(0, uint32(s)) }

// drain waits until no host kernel is in a wait, at most d. After raise, that takes one recheck of package wait.
func (b *abortBlock) drain(d time.Duration) bool {
	active := word32(b.ptr.Add(abortActive))
	for end := time.Now().Add(d); active.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// clear enables waits again and clears the report.
func (b *abortBlock) clear() {
	word32(b.ptr.Add(abortReported)).Store(0)
	b.word().Store(0)
}

// report returns the report of a kernel whose wait failed; ok is false if there is none.
func (b *abortBlock) report() (s Status, detail device.Ptr, op, peer uint32, ok bool) {
	s = Status(word32(b.ptr.Add(abortReported)).Load())
	if s == StatusOK {
		return 0, 0, 0, 0, false
	}
	return s, device.Ptr(word64(b.ptr.Add(abortDetail)).Load()), word32(b.ptr.Add(abortOp)).Load(),
		word32(b.ptr.Add(abortPeer)).Load(), true
}

// on returns the block's address for kernels of dev.
func (b *abortBlock) on(dev device.Device) (device.Ptr, error) {
	if dev.ID().Kind == device.Host {
		return b.ptr, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.undo != nil {
		return b.ptr, nil
	}
	undo, err := pinHostMemory(dev, b.ptr, int64(len(b.mem)))
	if err != nil {
		return 0, err
	}
	b.undo = undo
	return b.ptr, nil
}

func (b *abortBlock) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	if b.undo != nil {
		errs = append(errs, b.undo())
		b.undo = nil
	}
	if b.mem != nil {
		errs = append(errs, unix.Munmap(b.mem))
		b.mem = nil
	}
	return errors.Join(errs...)
}
