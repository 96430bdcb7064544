package core

import (
	"fmt"
	"math"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
)

// SignalWait is goccl_signal_wait, field by field.
type SignalWait struct{ Count, Peer, Index, Context int32 }

// PutSignal writes into a peer's part of a flat window and signals the peer.
func PutSignal(h Handle, offset uint64, src uintptr, size uint64, peer, context, index int,
	stream uintptr) error {
	w, err := windows.get(h)
	if err != nil {
		return err
	}
	f, ok := w.inner.(*goccl.FlatWindow)
	if !ok || offset > math.MaxInt64 || size > math.MaxInt64 {
		return fmt.Errorf("%w: %d bytes to offset %d of window %#x", ErrInvalidArgument, size, offset, uint64(h))
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
func Signal(h Handle, peer, context, index int, stream uintptr) error {
	c, inner, err := active(h)
	if err != nil {
		return err
	}
	s, err := c.stream(stream)
	if err != nil {
		return err
	}
	return inner.Signal(peer, goccl.SignalID{Context: context, Index: index}, s)
}

// WaitSignal waits for signals of peers.
func WaitSignal(h Handle, waits []SignalWait, stream uintptr) error {
	if len(waits) == 0 {
		return fmt.Errorf("%w: no signals to wait for", ErrInvalidArgument)
	}
	c, inner, err := active(h)
	if err != nil {
		return err
	}
	s, err := c.stream(stream)
	if err != nil {
		return err
	}
	list := make([]goccl.SignalWait, len(waits))
	for i, w := range waits {
		list[i] = goccl.SignalWait{Peer: int(w.Peer), Count: int(w.Count),
			ID: goccl.SignalID{Context: int(w.Context), Index: int(w.Index)}}
	}
	return inner.WaitSignal(list, s)
}
