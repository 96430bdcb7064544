package ipc

import (
	"context"
	"sync/atomic"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport"
)

// HostLink moves bytes between memories that the processor can access. The caller performs every operation, which is
// complete when it returns, so nothing needs to be flushed.
type HostLink struct{ closed atomic.Bool }

// NewHostLink makes a link between host devices.
func NewHostLink() *HostLink { return &HostLink{} }

func pointer(p device.Ptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

func (l *HostLink) reach(r transport.Remote) error {
	if l.closed.Load() {
		return transport.ErrClosed
	}
	return mapped(r)
}

// Write copies; the ranges may overlap.
func (l *HostLink) Write(dst transport.Remote, src device.Ptr, n int64) error {
	if err := l.reach(dst); err != nil {
		return err
	}
	copy(device.Bytes(dst.Ptr, n), device.Bytes(src, n))
	return nil
}

// Add adds atomically.
func (l *HostLink) Add(dst transport.Remote, delta uint64) error {
	if err := l.reach(dst); err != nil {
		return err
	}
	(*atomic.Uint64)(pointer(dst.Ptr)).Add(delta)
	return nil
}

// Store stores atomically.
func (l *HostLink) Store(dst transport.Remote, value uint64) error {
	if err := l.reach(dst); err != nil {
		return err
	}
	(*atomic.Uint64)(pointer(dst.Ptr)).Store(value)
	return nil
}

// Signal adds one to the cell at dst and wakes its sleepers.
func (l *HostLink) Signal(dst transport.Remote, _ uint64) error {
	if err := l.reach(dst); err != nil {
		return err
	}
	wait.At(pointer(dst.Ptr)).Add(1)
	return nil
}

// Mark stores immediately.
func (l *HostLink) Mark(word device.Ptr, value uint64) error {
	wait.At(pointer(word)).Store(value)
	return nil
}

// Flush does not wait, because all operations are complete.
func (l *HostLink) Flush(context.Context) error { return l.Err() }

// Err returns transport.ErrClosed after Close.
func (l *HostLink) Err() error {
	if l.closed.Load() {
		return transport.ErrClosed
	}
	return nil
}

// Close rejects further operations.
func (l *HostLink) Close() error {
	l.closed.Store(true)
	return nil
}

var _ transport.Link = (*HostLink)(nil)
