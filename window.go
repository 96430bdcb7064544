package goccl

import (
	"io"
	"sync"

	"github.com/goccl/goccl/device"
)

// Window is this rank's part of a window: memory that all ranks of a communicator have registered together.
type Window struct {
	c     *Comm
	ptr   device.Ptr
	size  int64
	inner io.Closer // of the engine
	once  sync.Once
	err   error
}

// RegisterWindow registers the size bytes at ptr as this rank's part of a window. It is collective: all ranks register
// the same windows, of the same sizes, in the same order, at the same place among their collectives. But it does not
// wait for peers, so one goroutine may call it for several ranks in turn.
//
// By registering, all ranks promise that a buffer in a window has the same offset in the window on every rank, in every
// later collective. So a rank can compute the addresses of its peers' buffers, and on GPUs the copy engines can write
// into them directly. Large all-gathers and all-to-alls whose recv lies in a window use them, unless a rank sets
// GOCCL_COPY_ENGINE=0. A window has no other effect, and none on the host device. If one rank cannot share its memory,
// no rank uses the window. The first collective in a window waits, at most Config.Timeout, until all ranks have
// registered and mapped it. Otherwise its error names the rank that is missing (ErrTimeout), or whose part has another
// size (ErrMismatch).
//
// The memory, from Device.Alloc or the caller's own, must remain valid until Close, on every rank. After an operation
// has failed or was aborted, copies that were already enqueued may still arrive: the contents of windows are then
// undefined, and the memory must not be freed before all ranks have closed their windows or their communicators. A
// window that overlaps an earlier one of the same rank is accepted but not used.
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
	inner, err := c.engine.RegisterWindow(ptr, size)
	if err != nil {
		return nil, c.wrap(op, err)
	}
	return &Window{c: c, ptr: ptr, size: size, inner: inner}, nil
}

// Ptr returns the start of this rank's part.
func (w *Window) Ptr() device.Ptr { return w.ptr }

// Size returns the size of this rank's part in bytes.
func (w *Window) Size() int64 { return w.size }

// Close closes the window on this rank. All ranks close it at the same place among their collectives, after all uses
// have ended: operations are complete, and graphs that contain such operations are not launched again. Closing the
// communicator closes its windows. Closing twice is harmless.
func (w *Window) Close() error {
	w.once.Do(func() {
		w.c.mu.Lock()
		defer w.c.mu.Unlock()
		if err := w.inner.Close(); err != nil {
			w.err = w.c.wrap("close window", err)
		}
	})
	return w.err
}
