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
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/internal/wait"
)

// pointer converts an address of mapped memory to a pointer. The memory never belongs to the Go heap.
func pointer(p device.Ptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

func word64(p device.Ptr) *atomic.Uint64 { return (*atomic.Uint64)(pointer(p)) }
func cellAt(p device.Ptr) *wait.Cell     { return wait.At(pointer(p)) }

// abortPage holds the Context's AbortBlock: one page of host memory, which is page-locked for all GPUs when a GPU first
// needs it.
type abortPage struct {
	*abort.Block
	mem []byte
	ptr device.Ptr

	mu   sync.Mutex
	undo func() error // unlocks the page; nil while it is not locked
}

func newAbortPage(spinLimit time.Duration) (*abortPage, error) {
	mem, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("primitive: map the abort block: %w", err)
	}
	at := unsafe.Pointer(unsafe.SliceData(mem))
	b := &abortPage{Block: abort.At(at), mem: mem, ptr: device.Ptr(uintptr(at))}
	b.Limit(spinLimit)
	return b, nil
}

// drain waits until no host kernel is in a wait, at most d. After Raise, that takes one recheck of package wait.
func (b *abortPage) drain(d time.Duration) bool {
	for end := time.Now().Add(d); b.Active.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// on returns the block's address for kernels of dev.
func (b *abortPage) on(dev device.Device) (device.Ptr, error) {
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

func (b *abortPage) close() error {
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
