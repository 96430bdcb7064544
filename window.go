package goccl

import (
	"io"
	"sync"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/device"
)

// Window is this rank's part of memory that all ranks of a communicator have registered together.
type Window struct {
	c     *Comm
	ptr   device.Ptr
	size  int64
	inner io.Closer // nil: the engine makes no use of it
	once  sync.Once
	err   error
}

// RegisterWindow names the size bytes at ptr as this rank's part of a window. It is collective: all ranks register the same windows, of the same sizes, in
// the same order, at the same place among their collectives. But it waits for nobody, so one goroutine may call it for several ranks, one after the other.
//
// By registering, all ranks promise that a buffer in a window lies at the same offset from the window's begin on every rank, in every later collective. Then a
// rank knows where its peers' buffers are, and on GPUs the copy engines can write straight into them: large all-gathers and all-to-alls whose recv lies in a
// window do so, unless GOCCL_COPY_ENGINE=0 is set on a rank. Everywhere else, and on the host device, a window changes nothing. Memory that cannot be shared
// on one rank is used by none so. The first collective in a window waits until all ranks have registered and mapped it, for Config.Timeout at the most: then
// its error names the rank that is missing (ErrTimeout), or whose part has another size (ErrMismatch).
//
// The memory, of Device.Alloc or the caller's own, stays until Close, on every rank. When an operation has failed or was aborted, copies that were enqueued may
// still arrive: windows then hold anything, and must not be freed before all ranks have closed them or their communicators. A window that overlaps an earlier
// one of the same rank is accepted, and of no use.
func (c *Comm) RegisterWindow(ptr device.Ptr, size int64) (*Window, error) {
	const op = "register window"
	if ptr == 0 || size <= 0 {
		return nil, c.errorf(op, ErrInvalidArgument, "%d bytes at %#x", size, ptr)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(op); err != nil {
		return nil, err
	}
	w := &Window{c: c, ptr: ptr, size: size}
	if e, ok := c.engine.(algorithm.Windower); ok {
		inner, err := e.RegisterWindow(ptr, size)
		if err != nil {
			return nil, c.wrap(op, err)
		}
		w.inner = inner
	}
	return w, nil
}

// Ptr is where this rank's part begins.
func (w *Window) Ptr() device.Ptr { return w.ptr }

// Size is its size in bytes.
func (w *Window) Size() int64 { return w.size }

// Close ends the window on this rank. All ranks close it at the same place among their collectives, when nothing that uses it is under way any more: operations
// have ended, and graphs that hold some are not launched again. Closing the communicator closes its windows; closing twice is harmless.
func (w *Window) Close() error {
	w.once.Do(func() {
		if w.inner == nil {
			return
		}
		w.c.mu.Lock()
		defer w.c.mu.Unlock()
		if err := w.inner.Close(); err != nil {
			w.err = w.c.wrap("close window", err)
		}
	})
	return w.err
}
