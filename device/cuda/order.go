package cuda

import (
	"context"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
)

// Order puts the work of one owner in sequence, whatever streams it goes to. Behind each piece of work that is not captured an event is
// recorded, at once: the stream may be destroyed before the next piece comes, and what others put on it in between must not be waited for. Captured
// work is ordered by its graph alone. An event
// that was never recorded counts as reached. An Order is for one goroutine at a time, but for Wait and Idle.
type Order struct {
	d   *Device
	raw *driver.Order // an object of its own: C writes to it
}

// NewOrder makes an Order without work.
func (d *Device) NewOrder() (*Order, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	ev, err := d.gpu.ctx.NewEvent(false) // no timing: it costs the GPU a time stamp
	if err != nil {
		return nil, fail(d.gpu.ordinal, "new order", err)
	}
	o := &Order{d: d, raw: &driver.Order{Event: ev}}
	if err := d.add(o); err != nil {
		_ = d.gpu.ctx.DestroyEvent(ev)
		return nil, err
	}
	return o, nil
}

// Enter makes later work on s follow o's earlier work.
func (o *Order) Enter(s *Stream) error {
	if err := o.fits(s); err != nil {
		return err
	}
	return s.done("enter", s.d.gpu.ctx.Enter(s.raw, o.raw))
}

// Leave marks the end of o's work so far, on the stream of the latest Enter.
func (o *Order) Leave(s *Stream) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.done("leave", s.d.gpu.ctx.Leave(s.raw, o.raw))
}

// Idle reports whether all work so far is done; an Order without any is idle. Captured work does not count. It may be called from any goroutine,
// until Close.
func (o *Order) Idle() (bool, error) {
	ok, err := o.d.gpu.ctx.EventDone(o.raw.Event)
	return ok, fail(o.d.gpu.ordinal, "query order", err)
}

// Wait polls until all work so far is done or ctx ends, from any goroutine.
func (o *Order) Wait(ctx context.Context) error {
	return fail(o.d.gpu.ordinal, "wait for order", poll(ctx, func() (bool, error) { return o.d.gpu.ctx.EventDone(o.raw.Event) }))
}

// Close frees the event; work that waits for it still does.
func (o *Order) Close() error {
	if !o.d.drop(o) {
		return nil
	}
	return fail(o.d.gpu.ordinal, "close order", o.d.gpu.ctx.DestroyEvent(o.raw.Event))
}

func (o *Order) fits(s *Stream) error {
	if s.d.gpu != o.d.gpu {
		return failKind(o.d.gpu.ordinal, "enter", device.ErrUnsupported, "the stream is of %s", s.d.ID())
	}
	return s.check()
}

// LaunchInOrder is Enter, LaunchRaw and Leave in one call of the driver's door. It allocates nothing.
func (s *Stream) LaunchInOrder(f *Function, cfg *Config, params []byte, o *Order) error {
	if err := o.fits(s); err != nil {
		return err
	}
	if f.d.gpu != s.d.gpu {
		return failKind(s.d.gpu.ordinal, "launch "+f.name, device.ErrUnsupported, "the kernel is loaded on %s", f.d.ID())
	}
	if err := s.d.gpu.ctx.LaunchInOrder(f.raw, cfg, s.raw, params, o.raw); err != nil {
		return fail(s.d.gpu.ordinal, "launch "+f.name, err)
	}
	return nil
}
