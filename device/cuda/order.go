package cuda

import (
	"context"
	"encoding/binary"
	"sync/atomic"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
)

// Order runs the work of one owner in sequence across streams. Work waits for the owner's latest work if that is on
// another stream, and for nothing else. The latest work is identified by its mark, not by its stream: the stream may be
// destroyed before the next work, and others may enqueue work on it in between. A kernel launched by LaunchInOrder
// counts its ended blocks in device memory. After any other work an event is recorded at once.
//
// Captured work follows the owner's earlier work in the same capture, by edges of the graph. A launch of the graph
// counts as work at the time of the launch: it follows the owner's work so far, eager or of other graphs, and later
// work follows it. This takes two nodes in the graph, a wait for the event and a record of it, and, from the first
// capture on, a wait and a record around each eager operation. Concurrent calls have no order: if one thread launches a
// graph while another enqueues work of the same owner, the caller must order them with a lock.
//
// Property, checked in every state of a small model (test/models, order): on every rank the operations begin
// in the order of their calls, so no rank waits for ever.
//
// An Order is for one goroutine at a time, except for Wait and Idle.
type Order struct {
	d    *Device
	raw  *driver.Order // a separate object, because C writes to it
	seen atomic.Uint64 // the last value read from the word
}

// GraphOrder is what an Order does about graphs.
type GraphOrder uint64

const (
	// OrderedGraphs is the order that the comment of Order describes.
	OrderedGraphs GraphOrder = iota
	// SeparateGraphs disables the order of graph launches among each other and with eager work, for owners that order
	// them themselves.
	SeparateGraphs
	// UnorderedCaptures also disables the order within a capture: work follows only the work before it on its stream.
	UnorderedCaptures
)

// NewOrder makes an Order without work. word is the address of 8 zero bytes of this device's memory, owned by the Order
// until Close, in which kernels count the blocks that have ended. With word 0, or with a driver without waits for
// 64-bit words, the Order uses events only.
func (d *Device) NewOrder(word device.Ptr, graphs GraphOrder) (*Order, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	if !d.gpu.props.StreamMemOps {
		word = 0
	}
	ev, err := d.gpu.ctx.NewEvent(false) // without timing, which would cost the GPU a time stamp
	o := &Order{d: d, raw: &driver.Order{Event: ev, Word: driver.Ptr(word), Separate: uint64(graphs)}}
	return made(d, "new order", o, err)
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
	return s.do("leave", func() error { return s.d.gpu.ctx.Leave(s.raw, o.raw) })
}

// Idle reports whether all work so far is done. That includes launched graphs, unless they are separate. An Order
// without work is idle. Any goroutine may call Idle until Close.
func (o *Order) Idle() (bool, error) {
	ok, err := o.idle()
	return ok, fail(o.d.gpu.ordinal, "query order", err)
}

// idle queries both marks: the earlier one is reached when the later one is. An event that was never recorded counts as
// reached. The word is copied on a stream that does not wait for other work.
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

// Mark identifies the work so far, outside of graphs, for Passed. Captured tells whether the latest work was captured.
func (o *Order) Mark() (mark uint64, captured bool) { return o.raw.Blocks(), o.raw.Captured() }

// Passed returns the mark that the work has reached: work before an equal or smaller mark has ended. Work that no
// kernel of LaunchInOrder follows is not covered by the mark; it has ended if all is true. Any goroutine may call
// Passed until Close.
func (o *Order) Passed() (mark uint64, all bool, err error) {
	want := o.raw.Blocks()
	if all, err = o.idle(); err != nil {
		return 0, false, fail(o.d.gpu.ordinal, "query order", err)
	}
	if all {
		return want, true, nil
	}
	return o.seen.Load(), false, nil
}

// Wait polls until all work so far is done or ctx ends, from any goroutine.
func (o *Order) Wait(ctx context.Context) error {
	return fail(o.d.gpu.ordinal, "wait for order", poll(ctx, o.idle))
}

// Close frees the event; work that waits for it still does. Graphs that contain work of o must not be launched any
// more. The word may be freed once Idle is true.
func (o *Order) Close() error { return o.d.end(o, "close order") }

func (o *Order) destroy() error { return o.d.gpu.ctx.DestroyEvent(o.raw.Event) }

func (o *Order) fits(s *Stream) error {
	if s.d.gpu != o.d.gpu {
		return failKind(o.d.gpu.ordinal, "enter", device.ErrUnsupported, "the stream is of %s", s.d.ID())
	}
	return s.check()
}

// LaunchInOrder is Enter, LaunchRaw and Leave in one call into the driver, for kernels whose first parameter is a
// ticket (kernels/collective/ticket.cuh). This call writes the ticket to the first 8 bytes of params. It allocates
// nothing.
func (s *Stream) LaunchInOrder(f *Function, cfg *Config, params []byte, o *Order) error {
	if err := o.fits(s); err != nil {
		return err
	}
	if f.d.gpu != s.d.gpu {
		return failKind(s.d.gpu.ordinal, "launch "+f.name, device.ErrUnsupported, "the kernel is loaded on %s", f.d.ID())
	}
	s.d.use.launched(cfg)
	if err := s.d.gpu.ctx.LaunchInOrder(f.raw, cfg, s.raw, params, o.raw); err != nil {
		return fail(s.d.gpu.ordinal, "launch "+f.name, err)
	}
	return nil
}
