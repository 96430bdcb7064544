package cuda

import (
	"context"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
)

// Event marks a point in a stream. It implements device.Event.
type Event struct {
	d   *Device
	raw driver.Event
}

var _ device.Event = (*Event)(nil)

// NewEvent makes an event that can be recorded many times. Until it is recorded it counts as reached.
func (d *Device) NewEvent() (*Event, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	raw, err := d.gpu.event()
	return made(d, "new event", &Event{d: d, raw: raw}, err)
}

// Record enqueues a new event.
func (s *Stream) Record() (device.Event, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	e, err := s.d.NewEvent()
	if err != nil {
		return nil, err
	}
	if err := s.RecordEvent(e); err != nil {
		_ = e.Close()
		return nil, err
	}
	return e, nil
}

// RecordEvent enqueues e and replaces its earlier record. It allocates nothing.
func (s *Stream) RecordEvent(e *Event) error { return s.RecordRaw(uintptr(e.raw)) }

// RecordRaw enqueues an event of the caller, a CUevent of this GPU.
func (s *Stream) RecordRaw(event uintptr) error {
	return s.do("record event", func() error { return s.d.gpu.ctx.RecordEvent(driver.Event(event), s.raw) })
}

// WaitEvent makes later work wait for e, which may be of another GPU.
func (s *Stream) WaitEvent(e device.Event) error {
	if err := s.check(); err != nil {
		return err
	}
	ev, ok := e.(*Event)
	if !ok {
		return failKind(s.d.gpu.ordinal, "wait event", device.ErrUnsupported, "an event of type %T", e)
	}
	return s.done("wait event", s.d.gpu.ctx.WaitEvent(s.raw, ev.raw))
}

// Wait polls until the event is reached or ctx ends.
func (e *Event) Wait(ctx context.Context) error {
	return fail(e.d.gpu.ordinal, "wait event", poll(ctx, e.Query))
}

// Query reports whether the event is reached.
func (e *Event) Query() (bool, error) { return e.d.gpu.ctx.EventDone(e.raw) }

// Since returns the time in seconds from start to e; both must be reached.
func (e *Event) Since(start device.Event) (float64, error) {
	s, ok := start.(*Event)
	if !ok {
		return 0, failKind(e.d.gpu.ordinal, "elapsed time", device.ErrUnsupported, "an event of type %T", start)
	}
	t, err := e.d.gpu.ctx.Elapsed(s.raw, e.raw)
	return t, fail(e.d.gpu.ordinal, "elapsed time", err)
}

// Close frees the event; work that waits for it still does.
func (e *Event) Close() error { return e.d.end(e, "close event") }

func (e *Event) destroy() error {
	e.d.gpu.recycle(e.raw)
	return nil
}
