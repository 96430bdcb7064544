package cuda

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
)

// Stream is a CUstream. It implements device.Stream.
type Stream struct {
	d      *Device
	raw    driver.Stream
	owned  bool
	closed atomic.Bool
}

var _ device.Stream = (*Stream)(nil)

// NewStream makes a stream of normal priority that does not synchronize with the default stream.
func (d *Device) NewStream() (device.Stream, error) { return d.NewStreamPriority(0) }

// NewStreamPriority makes a stream. Smaller numbers are more urgent; they are clamped to the GPU's range (usually 0 …
// -5).
func (d *Device) NewStreamPriority(priority int) (*Stream, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	raw, err := d.gpu.ctx.NewStream(priority)
	return made(d, "new stream", &Stream{d: d, raw: raw, owned: true}, err)
}

// WrapStream adopts a CUstream of this GPU's primary context. 0 is the default stream, 1 and 2 are the explicit handles
// of the legacy and the per-thread default stream. 2 refers to the calling thread, so the goroutine must be locked to
// it.
func (d *Device) WrapStream(raw uintptr) (device.Stream, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	if raw > 2 {
		ctx, err := d.gpu.ctx.StreamContext(driver.Stream(raw))
		if err != nil {
			return nil, fail(d.gpu.ordinal, "wrap stream", err)
		}
		if ctx != d.gpu.ctx {
			return nil, failKind(d.gpu.ordinal, "wrap stream", device.ErrUnsupported,
				"the stream belongs to another GPU or context")
		}
	}
	return &Stream{d: d, raw: driver.Stream(raw)}, nil
}

// Device returns the device that made or wrapped the stream.
func (s *Stream) Device() device.Device { return s.d }

// Raw is the CUstream.
func (s *Stream) Raw() uintptr { return uintptr(s.raw) }

// check returns nil while the stream may be used.
func (s *Stream) check() error {
	if s.closed.Load() {
		return &Error{Op: "use stream", Device: s.d.ID(), Err: device.ErrClosed}
	}
	return nil
}

func (s *Stream) done(op string, err error) error { return fail(s.d.gpu.ordinal, op, err) }

// do enqueues by f, if the stream may be used.
func (s *Stream) do(op string, f func() error) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.done(op, f())
}

// doneAt is done of what concerns an address.
func (s *Stream) doneAt(op string, p device.Ptr, err error) error {
	return failAt(s.d.gpu.ordinal, op, p, err)
}

// Copy enqueues a copy of n bytes. Between GPUs it runs on a copy engine.
func (s *Stream) Copy(dst, src device.Ptr, n int64) error {
	if n == 0 {
		return s.check()
	}
	if err := s.check(); err != nil {
		return err
	}
	s.d.use.copied()
	err := s.d.gpu.ctx.Copy(driver.Ptr(dst), driver.Ptr(src), n, s.raw)
	if err != nil {
		return s.doneAt(fmt.Sprintf("copy from %#x", uintptr(src)), dst, err)
	}
	return nil
}

// Memset enqueues n bytes of value.
func (s *Stream) Memset(dst device.Ptr, value byte, n int64) error {
	if err := s.check(); err != nil || n == 0 {
		return err
	}
	return s.doneAt("memset", dst, s.d.gpu.ctx.Memset8(driver.Ptr(dst), value, n, s.raw))
}

// WriteValue64 enqueues a store of v at p (8-aligned), visible to the system after all earlier work of the stream.
func (s *Stream) WriteValue64(p device.Ptr, v uint64) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.doneAt("write value", p, s.d.gpu.ctx.WriteValue64(s.raw, driver.Ptr(p), v))
}

// WaitValue64 makes later work wait until *p >= v by signed difference. Only the store ends that wait, so the caller
// must ensure that the store can happen.
func (s *Stream) WaitValue64(p device.Ptr, v uint64) error {
	return s.do("wait value", func() error { return s.d.gpu.ctx.WaitValue64(s.raw, driver.Ptr(p), v) })
}

// MemOps is a list of stores and waits that a stream runs in their order, without a kernel. Every store is visible to
// the system after all earlier work of the stream.
type MemOps struct{ list []driver.MemOp }

// Write appends a store of v at p (4-aligned).
func (m *MemOps) Write(p device.Ptr, v uint32) {
	m.list = append(m.list, driver.Write(driver.Ptr(p), v))
}

// Wait appends a wait until *p (8 bytes, 8-aligned) >= v by signed difference, with the caution of WaitValue64.
func (m *MemOps) Wait(p device.Ptr, v uint64) { m.list = append(m.list, driver.Wait(driver.Ptr(p), v)) }

// Run enqueues the operations and empties m, whose memory is reused. The driver copies the list.
func (s *Stream) Run(m *MemOps) error {
	if err := s.check(); err != nil {
		return err
	}
	rest := m.list
	for m.list = m.list[:0]; len(rest) > 0; {
		n := min(len(rest), driver.MostMemOps)
		if err := s.d.gpu.ctx.MemOps(s.raw, rest[:n]); err != nil {
			return s.done("memory operations", err)
		}
		rest = rest[n:]
	}
	return nil
}

// Query reports whether all enqueued work is done.
func (s *Stream) Query() (bool, error) {
	ok, err := s.d.gpu.ctx.StreamDone(s.raw)
	return ok, s.done("query stream", err)
}

// Synchronize polls until all enqueued work is done, the work fails or ctx ends. It refuses a stream that is being
// captured, and the capture continues: a driver query would invalidate it.
func (s *Stream) Synchronize(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	if st, _, err := s.CaptureStatus(); err == nil && st != CaptureNone {
		return failKind(s.d.gpu.ordinal, "synchronize", device.ErrUnsupported,
			"the stream is being captured: synchronise after EndCapture")
	}
	return s.done("synchronize", poll(ctx, func() (bool, error) { return s.d.gpu.ctx.StreamDone(s.raw) }))
}

// Close frees the stream once its work is done; it does not wait. A wrapped stream is only released.
func (s *Stream) Close() error {
	if s.closed.Swap(true) || !s.owned {
		return nil
	}
	s.d.drop(s)
	return s.done("close stream", s.destroy())
}

func (s *Stream) destroy() error { return s.d.gpu.ctx.DestroyStream(s.raw) }
