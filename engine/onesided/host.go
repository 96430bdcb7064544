package onesided

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
)

// onHost is Signals of the host device. The engine orders its operations.
type onHost struct {
	*counters
	cfg  Config
	used []uint64 // by peer and slot; only operations touch it, one at a time
}

// NewHost makes the half of a rank on the host device.
func NewHost(cfg Config) (Signals, error) {
	c, err := newCounters(&cfg, 0)
	if err != nil {
		return nil, err
	}
	return &onHost{c, cfg, make([]uint64, cfg.Size*Slots)}, nil
}

func (h *onHost) launch(s device.Stream, op string, f func() error) error {
	hs, ok := s.(*host.Stream)
	if !ok {
		return fmt.Errorf("%w: the stream is of %v", collective.ErrInvalidArgument, s.Device().ID())
	}
	if err := h.await(); err != nil {
		return err
	}
	return hs.Launch(op, 1, func(*host.Block) error { return f() })
}

func (h *onHost) Put(s device.Stream, dst, src device.Ptr, size int64, t Target) error {
	return h.launch(s, "put signal", func() error {
		copy(device.Bytes(dst, size), device.Bytes(src, size))
		atomicAt(h.toPeer(t)).Add(1)
		return nil
	})
}

func (h *onHost) Wait(s device.Stream, waits []Wait) error {
	waits = append([]Wait(nil), waits...)
	return h.launch(s, "wait signal", func() error {
		for _, w := range waits {
			if err := h.wait(w); err != nil {
				return err
			}
		}
		return nil
	})
}

// wait polls, ever less often.
func (h *onHost) wait(w Wait) error {
	used, word := &h.used[w.Peer*Slots+w.Slot], atomicAt(h.fromPeer(w.Target))
	began, pause := time.Now(), time.Duration(0)
	for word.Load() < *used+uint64(w.Count) {
		if err := h.cfg.Ended(); err != nil {
			return err
		}
		if err := h.cfg.Left(w.Peer); err != nil && word.Load() < *used+uint64(w.Count) { // signals came before it left
			return err
		}
		if err := h.cfg.Late(w, time.Since(began), word.Load()-*used); err != nil {
			return err
		}
		time.Sleep(pause)
		pause = min(pause+time.Microsecond, time.Millisecond)
	}
	*used += uint64(w.Count)
	return nil
}

// Drain has nothing to do: the engine's own work follows these operations.
func (h *onHost) Drain(context.Context) error { return nil }

func (h *onHost) Close() error { return h.own.Close() }

func atomicAt(p device.Ptr) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(device.Bytes(p, 8))))
}
