package ipc

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/transport"
)

func open(t testing.TB) *host.Device {
	t.Helper()
	d, err := host.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func alloc(t testing.TB, d device.Device, size int64) device.Ptr {
	t.Helper()
	a, err := d.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	return a.Ptr()
}

// words is a host stream that stores words in order, as a GPU's streams do.
type words struct{ *host.Stream }

func (w words) WriteValue64(p device.Ptr, v uint64) error {
	return w.Launch("write value", 1, func(*host.Block) error {
		(*atomic.Uint64)(pointer(p)).Store(v)
		return nil
	})
}

// adder counts the kernels that it launches.
type adder struct{ launched int }

func (a *adder) Add(s device.Stream, p device.Ptr, delta uint64) error {
	a.launched++
	return s.(words).Launch("add", 1, func(*host.Block) error {
		(*atomic.Uint64)(pointer(p)).Add(delta)
		return nil
	})
}

func at(p device.Ptr) uint64 { return (*atomic.Uint64)(pointer(p)).Load() }

func TestStreamLinkKeepsTheOrder(t *testing.T) {
	d := open(t)
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	add := &adder{}
	l := NewStreamLink(words{s.(*host.Stream)}, add)
	const size = 1 << 20
	src, dst, sem := alloc(t, d, size), alloc(t, d, size), alloc(t, d, 256)
	for i := range device.Bytes(src, size) {
		device.Bytes(src, size)[i] = byte(i * 3)
	}
	// The stream is blocked, so nothing may have happened before the gate opens.
	gate := make(chan struct{})
	if err := s.(*host.Stream).Launch("gate", 1, func(*host.Block) error { <-gate; return nil }); err != nil {
		t.Fatal(err)
	}
	to, token := transport.Remote{Ptr: dst}, transport.Remote{Ptr: sem}
	if err := errors.Join(l.Write(to, src, size), l.Signal(token, 1), l.Mark(sem.Add(64), 7)); err != nil {
		t.Fatal(err)
	}
	if at(sem.Add(8)) != 0 || at(sem.Add(64)) != 0 {
		t.Fatal("an operation overtook the stream")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := l.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("flush of a stream that stands: %v", err)
	}
	close(gate)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(device.Bytes(dst, size), device.Bytes(src, size)) || at(sem.Add(8)) != 1 || at(sem.Add(64)) != 7 {
		t.Fatal("wrong memory after the flush")
	}
	if add.launched != 0 {
		t.Fatal("a signal needs no kernel")
	}
	// Kernels signal too, in the first word.
	(*atomic.Uint64)(pointer(sem)).Add(5)
	if err := errors.Join(l.Signal(token, 2), l.Add(token, 10), l.Store(token.Add(16), 3),
		l.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if at(sem) != 15 || at(sem.Add(8)) != 2 || at(sem.Add(16)) != 3 || add.launched != 1 {
		t.Fatalf("counter %d, word %d, %d kernels", at(sem), at(sem.Add(8)), add.launched)
	}
	if err := l.Write(transport.Remote{Region: 4}, src, 1); !errors.Is(err, transport.ErrNotReachable) {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := l.Write(to, src, 1); !errors.Is(err, transport.ErrClosed) {
		t.Fatal(err)
	}
}
