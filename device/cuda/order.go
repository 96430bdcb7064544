package cuda

import (
	"context"
	"encoding/binary"
	"sync/atomic"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
)

// Order puts the work of one owner in sequence, whatever streams it goes to: work on another stream than the latest waits for that, and for nothing
// else. The latest work is known by its mark, not by its stream, which may be destroyed before the next work comes, and on which others
// may have put theirs in between. A kernel that LaunchInOrder launches counts its blocks in device memory as they end; behind any other work
// an event is recorded, at once.
//
// Captured work follows the owner's earlier work in the same capture, by edges of the graph. A launch of the graph counts as work at its time: it follows
// the owner's work until then, eager or of other graphs, and later work follows it. That takes two nodes in the graph, a wait for the event and a record
// of it, and from the first capture on a wait and a record around each eager operation. Calls that overlap in time have no order: who launches a graph
// while another thread enqueues work of the same owner has to say by a lock which comes first.
//
// An Order is for one goroutine at a time, but for Wait and Idle.
type Order struct {
	d    *Device
	raw  *driver.Order // an object of its own: C writes to it
	seen atomic.Uint64 // what the word was last found to be
}

// NewOrder makes an Order without work. word is 8 bytes of this device's memory that are zero and nobody else's until Close, where kernels
// count the blocks that have ended; 0 makes do with events. So does a driver without waits for 64-bit words. separate leaves launches of graphs
// unordered among each other and with eager work, for owners that know what they do.
func (d *Device) NewOrder(word device.Ptr, separate bool) (*Order, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	if !d.gpu.props.StreamMemOps {
		word = 0
	}
	ev, err := d.gpu.ctx.NewEvent(false) // no timing: it costs the GPU a time stamp
	if err != nil {
		return nil, fail(d.gpu.ordinal, "new order", err)
	}
	o := &Order{d: d, raw: &driver.Order{Event: ev, Word: driver.Ptr(word)}}
	if separate {
		o.raw.Separate = 1
	}
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

// Idle reports whether all work so far is done, launched graphs included unless they are separate; an Order without any is idle. It may be called from
// any goroutine, until Close.
func (o *Order) Idle() (bool, error) {
	ok, err := o.idle()
	return ok, fail(o.d.gpu.ordinal, "query order", err)
}

// idle asks for both marks: the earlier one is reached when the later one is. An event that was never recorded counts as reached. The word is
// copied on a stream that waits for nobody's work.
func (o *Order) idle() (bool, error) {
	want := o.raw.Blocks()
	if ok, err := o.d.gpu.ctx.EventDone(o.raw.Event); !ok || err != nil {
		return false, err
	}
	if int64(o.seen.Load()-want) >= 0 {
		return true, nil
	}
	var word [8]byte
	if err := o.d.gpu.ctx.CopyOut(word[:], o.raw.Word, o.d.gpu.setup); err != nil {
		return false, err
	}
	now := binary.NativeEndian.Uint64(word[:])
	o.seen.Store(now)
	return int64(now-want) >= 0, nil
}

// Wait polls until all work so far is done or ctx ends, from any goroutine.
func (o *Order) Wait(ctx context.Context) error {
	return fail(o.d.gpu.ordinal, "wait for order", poll(ctx, o.idle))
}

// Close frees the event; work that waits for it still does. Graphs that hold work of o must not be launched any more. The word may be freed once Idle
// is true.
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

// LaunchInOrder is Enter, LaunchRaw and Leave in one call of the driver's door, for kernels whose first parameter is a ticket
// (kernels/collective/ticket.cuh): the first 8 bytes of params, which this call writes. It allocates nothing.
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
