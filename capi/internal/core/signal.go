package core

import (
	"fmt"
	"math"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
)

// PutSignal writes into a peer's part of a flat window and signals the peer.
func PutSignal(w *Window, offset uint64, src uintptr, size uint64, peer, context, index int, stream uintptr) error {
	f, ok := w.inner.(*goccl.FlatWindow)
	if !ok || offset > math.MaxInt64 || size > math.MaxInt64 {
		return fmt.Errorf("%w: %d bytes to offset %d of window %#x", ErrInvalidArgument, size, offset, uint64(w.handle))
	}
	_, inner, err := active(w.c.handle)
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

// Signal signals a peer.
func Signal(a Active, peer, context, index int, stream uintptr) error {
	s, err := a.c.stream(stream)
	if err != nil {
		return err
	}
	return a.inner.Signal(peer, goccl.SignalID{Context: context, Index: index}, s)
}

// WaitSignal waits for signals of peers.
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
