package host

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/goccl/goccl/device"
)

// Stream is an ordered queue of work. WrapStream(0) has no queue: each call returns when its work is done.
type Stream struct {
	q      *queue
	owned  bool
	closed atomic.Bool
}

var _ device.Stream = (*Stream)(nil)

// streams maps numbers to streams, for WrapStream.
var streams = struct {
	sync.Mutex
	last uintptr
	open map[uintptr]*queue
}{open: map[uintptr]*queue{}}

// NewStream makes an empty stream. It holds no goroutine while it has no work.
func (d *Device) NewStream() (device.Stream, error) {
	if err := d.check("new stream"); err != nil {
		return nil, err
	}
	streams.Lock()
	defer streams.Unlock()
	streams.last++
	q := &queue{dev: d, raw: streams.last}
	streams.open[q.raw] = q
	return &Stream{q: q, owned: true}, nil
}

// WrapStream returns the stream of this process whose Raw is raw, or for 0 a new synchronous stream.
func (d *Device) WrapStream(raw uintptr) (device.Stream, error) {
	if err := d.check("wrap stream"); err != nil {
		return nil, err
	}
	if raw == 0 {
		return &Stream{q: &queue{dev: d, synchronous: true}}, nil
	}
	streams.Lock()
	defer streams.Unlock()
	q := streams.open[raw]
	if q == nil {
		return nil, fmt.Errorf("host: wrap stream %d (%#x) on %s: %w: no open host stream has this number", raw, raw, d.ID(),
			device.ErrUnsupported)
	}
	return &Stream{q: q}, nil
}

// Running is the name of the work that the stream of this number runs now, "" if it runs none. ok is false if no open
// stream has the number.
func (d *Device) Running(raw uintptr) (name string, ok bool) {
	streams.Lock()
	q := streams.open[raw]
	streams.Unlock()
	if q == nil {
		return "", false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.now, true
}

// dropStreams removes the numbers of d's streams.
func dropStreams(d *Device) {
	streams.Lock()
	defer streams.Unlock()
	maps.DeleteFunc(streams.open, func(_ uintptr, q *queue) bool { return q.dev == d })
}

// Device returns the device that made the stream.
func (s *Stream) Device() device.Device { return s.q.dev }

// Raw returns the stream's number, 0 for a synchronous stream.
func (s *Stream) Raw() uintptr { return s.q.raw }

// Launch enqueues a kernel. k runs once for each block, all blocks at the same time, each on its own goroutine (a
// single block on the stream's). The first error of a block ends the other blocks' barriers and becomes the stream's
// error, with the kernel's name. Panics and faults on a block's own goroutine are errors too; goroutines that the
// kernel starts are not covered.
func (s *Stream) Launch(name string, blocks int, k func(b *Block) error) error {
	if blocks < 1 || k == nil {
		return fmt.Errorf("host: launch %s: %d blocks of %p", name, blocks, k)
	}
	return s.submit(op{kind: opKernel, name: name, blocks: blocks, kernel: k})
}

// Copy enqueues a copy of n bytes; the ranges may overlap.
func (s *Stream) Copy(dst, src device.Ptr, n int64) error {
	if n < 0 {
		return fmt.Errorf("host: copy %d bytes", n)
	}
	return s.submit(op{kind: opCopy, name: "copy", dst: dst, src: src, n: n})
}

// Memset enqueues n bytes of value.
func (s *Stream) Memset(dst device.Ptr, value byte, n int64) error {
	if n < 0 {
		return fmt.Errorf("host: memset %d bytes", n)
	}
	return s.submit(op{kind: opMemset, name: "memset", dst: dst, value: value, n: n})
}

// Record enqueues an event.
func (s *Stream) Record() (device.Event, error) {
	e := &Event{reached: make(chan struct{})}
	if err := s.submit(op{kind: opRecord, name: "record", event: e}); err != nil {
		return nil, err
	}
	return e, nil
}

// WaitEvent makes later work wait for e, an event of a host stream. If e's stream has failed, this stream fails too.
func (s *Stream) WaitEvent(e device.Event) error {
	he, ok := e.(*Event)
	if !ok {
		return fmt.Errorf("host: wait for a %T on %s: %w", e, s.q.dev.ID(), device.ErrUnsupported)
	}
	return s.submit(op{kind: opWaitEvent, name: "wait event", event: he})
}

func (s *Stream) submit(o op) error {
	if s.closed.Load() {
		return fmt.Errorf("host: %s on a stream of %s: %w", o.name, s.q.dev.ID(), device.ErrClosed)
	}
	return s.q.submit(o)
}

// Synchronize waits until all work enqueued so far is done and returns the stream's error, if any.
func (s *Stream) Synchronize(ctx context.Context) error { return s.q.synchronize(ctx) }

// Err returns the stream's sticky error; it does not wait.
func (s *Stream) Err() error {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	return s.q.err
}

// Close refuses further work; enqueued work still runs.
func (s *Stream) Close() error {
	if s.closed.Swap(true) || !s.owned {
		return nil
	}
	streams.Lock()
	delete(streams.open, s.q.raw)
	streams.Unlock()
	return nil
}
