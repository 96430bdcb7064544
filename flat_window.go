package goccl

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/share"
)

// flatUnit divides the distance between the parts of a flat window. NCCL's device API counts in units of 4 GiB.
const flatUnit = 4 << 30

// FlatWindow is a window whose parts are mapped side by side on every rank: the part of rank p is at Base + p·Stride.
// Kernels that know these two numbers reach the memory of all ranks.
type FlatWindow struct {
	c     *Comm
	inner *share.Window
}

// RegisterFlat makes the size bytes at ptr this rank's part of a flat window. It is collective: all ranks register the
// same flat windows in the same order. It does not wait for peers, but Await does. Sizes may differ, and windows of a
// rank may overlap. The memory is of Device.Alloc, or of cuMemCreate with a file descriptor; parts begin at the same
// offset in their allocations on all ranks, or whole pages of 2 MiB apart. It must remain valid until all ranks have
// closed the window.
func (c *Comm) RegisterFlat(ptr device.Ptr, size int64) (*FlatWindow, error) {
	const op = "register flat window"
	if ptr == 0 || size <= 0 {
		return nil, c.errorf(op, ErrInvalidArgument, "%d bytes at %#x", size, ptr)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(op); err != nil {
		return nil, err
	}
	if c.flats == nil {
		c.flats = share.NewWindows(c.boot, tags.Flat, c.dev, c.cfg.Timeout, share.Flat(flatUnit), share.Free(),
			share.Bound(func(ctx context.Context) (context.Context, func()) { return c.group.Bound(ctx, op) }))
		c.status.OnEnd(func(error) { c.flats.Abandon() })
		var err error
		if c.signals, err = c.newSignals(); err != nil {
			return nil, c.wrap(op, err)
		}
	}
	w, err := c.flats.Register(ptr, size)
	if err != nil {
		return nil, c.wrap(op, err)
	}
	return &FlatWindow{c, w}, nil
}

// Await waits, at most Config.Timeout, until all ranks have registered and mapped the window. If one rank could not
// share or map its part, all ranks get an error of the kind ErrUnsupported with the reason. Then the window may only be
// closed.
func (w *FlatWindow) Await() error {
	const op = "flat window"
	usable, err := w.inner.Await()
	switch {
	case err != nil:
		return w.c.group.Ended(op, err)
	case !usable:
		return w.c.group.Fault(op, fault.PeerOf(w.inner.Reason()), fmt.Errorf("%w: %w", ErrUnsupported,
			w.inner.Reason()))
	}
	return nil
}

// Base is the address of rank 0's part. It is valid after a successful Await, until Close.
func (w *FlatWindow) Base() device.Ptr { return w.inner.Parts().Base }

// Stride is the distance of two ranks' parts in bytes, a multiple of 4 GiB.
func (w *FlatWindow) Stride() int64 { return w.inner.Parts().Stride }

// Close unmaps the window on this rank. No work of this rank may use it any more. Closing the communicator closes its
// windows. After an abort the mappings stay until the process ends, because kernels may still use them.
func (w *FlatWindow) Close() error { return w.inner.Close() }

// reaching is an engine whose kernels may address the memory of all ranks, and poll a word.
type reaching interface {
	Reaches() bool
	AbortWord() device.Ptr
	AbortBlock() device.Ptr
	Atomics() bool  // atomic additions of kernels reach the memory of all ranks
	Overlaps() bool // work of one rank may overlap: no other rank has its GPU
}

// Reaches reports whether kernels of every rank can address the memory of all ranks: the ranks are GPUs of one host
// with peer access.
func (c *Comm) Reaches() bool {
	e, ok := c.engine.(reaching)
	return ok && e.Reaches()
}

// AbortWord is the address of a 32-bit word that kernels may poll: it becomes different from 0 when the communicator
// fails or is aborted. It is valid until Close, after an abort until the process ends, and 0 on the host device.
func (c *Comm) AbortWord() device.Ptr {
	if e, ok := c.engine.(reaching); ok {
		return e.AbortWord()
	}
	return 0
}

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
