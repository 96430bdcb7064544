package host

import (
	"context"

	"github.com/goccl/goccl/device"
)

// Order runs the work of one owner in sequence across streams, as cuda.Order does on GPUs. It is for one goroutine at a
// time; the zero Order has no work.
type Order struct {
	// last is the stream of the latest work, as a separate handle, because the caller may close its stream. It is nil
	// if that work is done.
	last *Stream
}

// Enter makes later work on s follow the owner's earlier work. The owner's next work must be on s.
func (o *Order) Enter(s *Stream) error {
	if o.last != nil && o.last.q == s.q {
		return nil
	}
	if o.last != nil {
		if err := device.Join(s, o.last); err != nil {
			return err
		}
		o.last = nil
	}
	if !s.q.synchronous { // else its work is done when the call that enqueues it returns
		o.last = &Stream{q: s.q}
	}
	return nil
}

// Wait waits until all work on the stream of the latest work is done, or until ctx ends. It returns the stream's error.
func (o *Order) Wait(ctx context.Context) error {
	if o.last == nil {
		return nil
	}
	return o.last.Synchronize(ctx)
}
