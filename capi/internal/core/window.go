package core

import (
	"fmt"
	"io"
	"math"
	"unsafe"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
)

const kindWindow = 0x0c91

// Window is a *goccl.Window or a *goccl.FlatWindow of a communicator.
type Window = owned[io.Closer]

var windows = ownedTable[io.Closer]{table[*Window]{kind: kindWindow, name: "window"}}

func WindowRegister(a Active, ptr unsafe.Pointer, size uint64) (Handle, error) {
	return register(a, ptr, size, func(c *goccl.Comm, p device.Ptr, n int64) (io.Closer, error) {
		return c.RegisterWindow(p, n)
	})
}

func FlatRegister(a Active, ptr unsafe.Pointer, size uint64) (Handle, error) {
	return register(a, ptr, size, func(c *goccl.Comm, p device.Ptr, n int64) (io.Closer, error) {
		return c.RegisterFlat(p, n)
	})
}

func register(a Active, ptr unsafe.Pointer, size uint64,
	by func(*goccl.Comm, device.Ptr, int64) (io.Closer, error)) (Handle, error) {
	if size > math.MaxInt64 {
		return 0, fmt.Errorf("%w: a window of %d bytes at %#x", ErrInvalidArgument, size, uintptr(ptr))
	}
	w, err := by(a.inner, device.Ptr(uintptr(ptr)), int64(size))
	if err != nil {
		return 0, err
	}
	return windows.grant(a.c, w)
}

func FlatWait(w *Window) (Flat, error) {
	f, ok := w.inner.(*goccl.FlatWindow)
	if !ok {
		return Flat{}, fmt.Errorf("%w: window %#x is not flat: register it with goccl_flat_register", ErrInvalidArgument,
			uint64(w.handle))
	}
	if err := f.Await(); err != nil {
		return Flat{}, err
	}
	return Flat{Base: uint64(f.Base()), Stride: uint64(f.Stride()), Abort: uint64(w.c.inner.Load().AbortWord())}, nil
}

// WindowDeregister ends a window. Ending it again, or after its communicator, is harmless.
func WindowDeregister(h Handle) error { return windows.end(h) }

func PutSignal(w *Window, offset uint64, src uintptr, size uint64, peer, context, index int, stream uintptr) error {
	f, ok := w.inner.(*goccl.FlatWindow)
	if !ok || offset > math.MaxInt64 || size > math.MaxInt64 {
		return fmt.Errorf("%w: %d bytes to offset %d of window %#x", ErrInvalidArgument, size, offset, uint64(w.handle))
	}
	_, inner, err := usable(w.c.handle, stateOpen)
	if err != nil {
		return err
	}
	s, err := w.c.stream(stream)
	if err != nil {
		return err
	}
	return inner.PutSignal(f, int64(offset), device.Ptr(src), int64(size), peer,
		goccl.SignalID{Context: context, Index: index}, s)
}

func Signal(a Active, peer, context, index int, stream uintptr) error {
	s, err := a.c.stream(stream)
	if err != nil {
		return err
	}
	return a.inner.Signal(peer, goccl.SignalID{Context: context, Index: index}, s)
}

func WaitSignal(a Active, waits []SignalWait, stream uintptr) error {
	if len(waits) == 0 {
		return fmt.Errorf("%w: no signals to wait for", ErrInvalidArgument)
	}
	s, err := a.c.stream(stream)
	if err != nil {
		return err
	}
	list := make([]goccl.SignalWait, len(waits))
	for i, w := range waits {
		list[i] = goccl.SignalWait{Peer: int(w.Peer), Count: int(w.Count),
			ID: goccl.SignalID{Context: int(w.Context), Index: int(w.Index)}}
	}
	return a.inner.WaitSignal(list, s)
}
