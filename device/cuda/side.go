package cuda

import (
	"errors"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
)

// Side is a stream for work that runs beside the work of other streams, eager or captured, with the events that fork
// and join it:
//
//  1. Fork records the point on a stream where the side work may begin.
//  2. Begin makes the side stream wait for that point and returns it.
//  3. Join makes the stream of the Fork wait for the work on the side stream.
//
// A wait refers to the record that it found, so one pair of events serves any number of forks, even while earlier waits
// are pending. Nothing is allocated, and the host does not wait. A Side is for one goroutine at a time.
type Side struct {
	d              *Device
	stream         *Stream
	forked, joined driver.Event
}

// NewSide makes a Side of normal priority.
func (d *Device) NewSide() (*Side, error) {
	s, err := d.NewStreamPriority(0)
	if err != nil {
		return nil, err
	}
	x := &Side{d: d, stream: s}
	for _, e := range []*driver.Event{&x.forked, &x.joined} {
		if *e, err = d.gpu.ctx.NewEvent(false); err != nil { // without timing, which would cost the GPU a time stamp
			return nil, fail(d.gpu.ordinal, "new side", errors.Join(err, x.destroy()))
		}
	}
	if err := d.add(x); err != nil {
		return nil, errors.Join(err, x.destroy())
	}
	return x, nil
}

// Fork marks the end of the work so far on s. If the side stream belongs to a capture that does not include s, Fork
// returns false and there is nothing to join. From the first Begin in a capture until that capture ends, the side
// stream belongs to it; other work on it would become part of the graph, or invalidate it.
func (x *Side) Fork(s *Stream) (bool, error) {
	if s.d.gpu != x.d.gpu {
		return false, failKind(x.d.gpu.ordinal, "fork", device.ErrUnsupported, "the stream is of %s", s.d.ID())
	}
	if err := errors.Join(x.stream.check(), s.check()); err != nil {
		return false, err
	}
	own, in, err := x.stream.CaptureStatus()
	if err != nil {
		return false, err
	}
	if own != CaptureNone {
		if status, id, err := s.CaptureStatus(); err != nil || status != own || id != in {
			return false, err
		}
	}
	return true, s.done("fork", x.d.gpu.ctx.RecordEvent(x.forked, s.raw))
}

// Begin returns the side stream; its later work follows the mark of the latest Fork.
func (x *Side) Begin() (*Stream, error) {
	return x.stream, x.stream.done("begin", x.d.gpu.ctx.WaitEvent(x.stream.raw, x.forked))
}

// Join makes later work on s, the stream of the latest Fork, wait for the side work so far.
func (x *Side) Join(s *Stream) error {
	if err := x.d.gpu.ctx.RecordEvent(x.joined, x.stream.raw); err != nil {
		return s.done("join", err)
	}
	return s.done("join", x.d.gpu.ctx.WaitEvent(s.raw, x.joined))
}

// Close frees the stream and the events once their work is done; it does not wait. Closing twice is harmless.
func (x *Side) Close() error { return x.d.end(x, "close side") }

func (x *Side) destroy() error {
	errs := []error{x.stream.Close()}
	for _, e := range []driver.Event{x.forked, x.joined} {
		if e != 0 {
			errs = append(errs, x.d.gpu.ctx.DestroyEvent(e))
		}
	}
	return errors.Join(errs...)
}
