package ipc

import (
	"cmp"
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

// do performs an operation at a location that is mapped here, unless the link is closed.
func (l *HostLink) do(at transport.Remote, operation func()) error {
	err := cmp.Or(l.Err(), mapped(at))
	if err == nil {
		operation()
	}
	return err
}

// Write copies; the ranges may overlap.
func (l *HostLink) Write(dst transport.Remote, src device.Ptr, n int64) error {
	return l.do(dst, func() { copy(device.Bytes(dst.Ptr, n), device.Bytes(src, n)) })
}

// Add adds atomically.
func (l *HostLink) Add(dst transport.Remote, delta uint64) error {
	return l.do(dst, func() { (*atomic.Uint64)(pointer(dst.Ptr)).Add(delta) })
}

// Store stores atomically.
func (l *HostLink) Store(dst transport.Remote, value uint64) error {
	return l.do(dst, func() { (*atomic.Uint64)(pointer(dst.Ptr)).Store(value) })
}

// Signal adds one to the cell at dst and wakes its sleepers.
func (l *HostLink) Signal(dst transport.Remote, _ uint64) error {
	return l.do(dst, func() { wait.At(pointer(dst.Ptr)).Add(1) })
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
