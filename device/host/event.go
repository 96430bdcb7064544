package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl/device"
)

// Event is a point in a host stream, with the wall-clock time at which it was reached.
type Event struct {
	reached chan struct{} // closed once; at and err are written before
	at      time.Time
	err     error // why the stream did not get there
}

var _ device.Event = (*Event)(nil)

// ErrNotReached is returned by Since for an event that is not reached.
var ErrNotReached = errors.New("host: event not reached yet")

func (e *Event) reach(at time.Time, err error) {
	e.at, e.err = at, err
	close(e.reached)
}

// Wait blocks until the event is reached or ctx ends. If the stream failed before it, Wait returns the stream's error.
func (e *Event) Wait(ctx context.Context) error {
	select {
	case <-e.reached:
		return e.err
	default:
	}
	select {
	case <-e.reached:
		return e.err
	case <-ctx.Done():
		return fmt.Errorf("host: wait for event: %w", ctx.Err())
	}
}

// block is Wait inside a stream of d; it ends with the event or with the device's Close.
func (e *Event) block(d *Device) error {
	select {
	case <-e.reached:
	case <-d.closing:
		return fmt.Errorf("host: wait for event on %s: %w", d.ID(), device.ErrClosed)
	}
	if e.err != nil {
		return fmt.Errorf("host: wait for event on %s: the other stream has failed: %w", d.ID(), e.err)
	}
	return nil
}

// Since returns the time from start to e in seconds, or ErrNotReached.
func (e *Event) Since(start device.Event) (float64, error) {
	s, ok := start.(*Event)
	if !ok {
		return 0, fmt.Errorf("host: time since a %T: %w", start, device.ErrUnsupported)
	}
	for _, x := range []*Event{s, e} {
		select {
		case <-x.reached:
		default:
			return 0, ErrNotReached
		}
		if x.err != nil {
			return 0, x.err
		}
	}
	return e.at.Sub(s.at).Seconds(), nil
}

// Close does nothing: an event is only memory.
func (e *Event) Close() error { return nil }
