package nvlink

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/test/mockcuda"
)

// An operation on the same stream as the previous one is a single launch. On another stream it first waits until as
// many blocks have ended as were launched. Captured operations are launches without a ticket. From the first capture
// on, an event covers all work, since graph launches are not seen.
func TestOrder(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	word := uint64(e.launcher.State.Ptr()) + stateTicket
	blocks := uint64(0)
	put := func(name string, s *cuda.Stream, count int64, want string) {
		t.Helper()
		calls := noted(t, func() { must(t, e.Enqueue(1, []collective.Request{allReduce(mem, count, s)})) })
		if got := kinds(calls); got != want {
			t.Fatalf("%s: %s; want %s", name, got, want)
		}
		for _, c := range calls {
			ticket := word
			if c.Captured {
				ticket = 0
			}
			switch {
			case c.Kind == mockcuda.WaitValue && c.Stream != a.Raw() && c.Stream != b.Raw(): // the event's stream
				if c.A != word || c.B != blocks {
					t.Errorf("%s: the event takes over at %d of %#x; want %d of %#x", name, c.B, c.A, blocks, word)
				}
			case c.Kind == mockcuda.WaitValue && (c.Stream != s.Raw() || c.A != word || c.B != blocks):
				t.Errorf("%s waits on stream %#x for %d at %#x; want %#x, %d, %#x", name, c.Stream, c.B, c.A, s.Raw(), blocks, word)
			case c.Kind == mockcuda.Launch && ticketOf(c) != ticket:
				t.Errorf("%s: ticket %#x, want %#x", name, ticketOf(c), ticket)
			case c.Kind == mockcuda.Launch && !c.Captured:
				blocks += uint64(c.Grid)
			}
		}
	}
	const same, other = "capture-query launch", "capture-query wait-value launch"
	put("first", a, 16, same)
	put("same stream", a, 16<<10, same)
	put("other stream", b, 16, other)
	put("there again", b, 100<<10, same)
	put("back", a, 16, other)
	must(t, b.BeginCapture(cuda.CaptureRelaxed))
	put("captured", b, 16, "capture-query* wait-value record launch*") // the event takes over from the word
	put("captured behind it", b, 16, "capture-query* launch*")
	const shared = "capture-query wait-event launch record"
	put("eager beside the capture", a, 16, shared)
	g, err := b.EndCapture()
	must(t, err)
	x, err := g.Instantiate()
	must(t, err)
	must(t, x.Launch(b))
	must(t, x.Launch(b))
	put("after the graph, on another stream", a, 16, shared)
	put("on the graph's", b, 16, shared)
	put("there again", b, 16, shared)
	must(t, errors.Join(g.Close(), x.Close()))
	if blocks < 10 {
		t.Errorf("only %d blocks: the sizes show nothing", blocks)
	}
	if idle, err := e.launcher.Order.Idle(); !idle || err != nil {
		t.Errorf("idle %v, %v", idle, err)
	}
	var got [8]byte
	must(t, e.dev.CopyOut(got[:], device.Ptr(word)))
	if v := binary.NativeEndian.Uint64(got[:]); v != blocks {
		t.Errorf("%d blocks have ended, %d were launched", v, blocks)
	}
}

// ticketOf is the first parameter of a launch.
func ticketOf(c mockcuda.Call) uint64 { return binary.NativeEndian.Uint64(c.Params) }

// A launch that the driver refuses does not count: a waiter would wait forever.
func TestOrderForgetsFailedLaunches(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 16, a)}))
	for _, s := range []*cuda.Stream{a, b} {
		cfg := cuda.Launch1D(7, 4096, 0)
		f, order := e.kernels.move[exchanging][ll128][0], e.launcher.Order
		if err := s.LaunchInOrder(f, &cfg, launcher.Raw(e.args), order); err == nil {
			t.Fatal("4096 threads")
		}
		if err := s.LaunchInOrder(f, &cfg, nil, order); err == nil {
			t.Fatal("no room for a ticket")
		}
	}
	calls := noted(t, func() { must(t, e.Enqueue(2, []collective.Request{allReduce(mem, 16, b)})) })
	if got := kinds(calls); got != "capture-query wait-value launch" || calls[1].B != 1 {
		t.Errorf("%s, for %d", got, calls[1].B)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	must(t, b.Synchronize(ctx))
	must(t, e.Drain(ctx))
}

// The mark of work without a ticket is an event; other streams wait for the latest mark.
func TestOrderOfOtherWork(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	work := func(s *cuda.Stream) string {
		return kinds(noted(t, func() {
			must(t, e.launcher.Order.Enter(s))
			must(t, s.Copy(mem.Add(64), mem, 8))
			must(t, e.launcher.Order.Leave(s))
		}))
	}
	kernel := func(s *cuda.Stream) string {
		return kinds(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 16, s)})) }))
	}
	for i, c := range []struct {
		do   func(*cuda.Stream) string
		s    *cuda.Stream
		want string
	}{
		{work, a, "capture-query copy record"},
		{kernel, a, "capture-query launch"},
		{work, a, "capture-query copy record"},
		{work, b, "capture-query wait-event copy record"},
		{kernel, a, "capture-query wait-event launch"},
		{work, b, "capture-query wait-value copy record"},
		{kernel, b, "capture-query launch"},
		{kernel, a, "capture-query wait-value launch"},
	} {
		if got := c.do(c.s); got != c.want {
			t.Errorf("step %d: %s; want %s", i, got, c.want)
		}
	}
	// Idle requires both marks.
	gate := mem.Add(1 << 19)
	for value, do := range []func(*cuda.Stream) string{work, kernel} {
		must(t, a.WaitValue64(gate, uint64(value+1)))
		do(a)
		if idle, err := e.launcher.Order.Idle(); idle || err != nil {
			t.Errorf("step %d: idle %v, %v", value, idle, err)
		}
		must(t, b.WriteValue64(gate, uint64(value+1)))
		if idle, err := e.launcher.Order.Idle(); !idle || err != nil {
			t.Errorf("step %d done: idle %v, %v", value, idle, err)
		}
	}
}

// Without waits for words there is an event after every launch.
func TestOrderWithoutWords(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	o := setOrder(t, e, 0, cuda.OrderedGraphs)
	for i, c := range []struct {
		s    *cuda.Stream
		want string
	}{{a, "capture-query launch record"}, {a, "capture-query launch record"},
		{b, "capture-query wait-event launch record"}} {
		calls := noted(t, func() { must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 16, c.s)})) })
		if got := kinds(calls); got != c.want || ticketOf(launches(calls)[0]) != 0 {
			t.Errorf("operation %d: %s; want %s", i, got, c.want)
		}
	}
	if idle, err := o.Idle(); !idle || err != nil {
		t.Errorf("idle %v, %v", idle, err)
	}
}

// The stream of the latest operation may be destroyed before the next one.
func TestOrderOutlivesStreams(t *testing.T) {
	e := mockEngines(t, 2)[0]
	mem := memory(t, e, 1<<20)
	for range 3 {
		s, err := e.dev.NewStream()
		must(t, err)
		must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 16, s)}))
		must(t, s.Close())
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	must(t, e.Drain(ctx))
}

// A stream that was destroyed with work on it may pass its handle to another stream, and the per-thread default streams
// share one handle. They still count as different streams.
func TestOrderKnowsStreamsByIdentity(t *testing.T) {
	e := mockEngines(t, 2)[0]
	mem := memory(t, e, 1<<20)
	put := func(s device.Stream) string {
		return kinds(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 16, s)})) }))
	}
	first, err := e.dev.NewStream()
	must(t, err)
	put(first)
	raw := first.Raw()
	must(t, first.Close())
	second := newStream(t, e)
	if second.Raw() != raw {
		t.Fatal("the mock gives no handle out again: this test shows nothing")
	}
	if got := put(second); got != "capture-query wait-value launch" {
		t.Errorf("after a stream of the same handle: %s", got)
	}
	own, err := e.dev.WrapStream(2)
	must(t, err)
	for i := range 2 {
		done := make(chan string)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			put(own)
			done <- put(own) // the same thread again
		}()
		if got := <-done; got != "capture-query launch" {
			t.Errorf("thread %d, second operation: %s", i, got)
		}
		if got := put(own); got != "capture-query wait-value launch" {
			t.Errorf("after thread %d: %s", i, got)
		}
	}
}

// The default stream is the same by either handle, and waits like any other.
func TestOrderOnTheDefaultStream(t *testing.T) {
	e := mockEngines(t, 2)[0]
	s, mem := newStream(t, e), memory(t, e, 1<<20)
	put := func(s device.Stream) string {
		return kinds(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 16, s)})) }))
	}
	named := func(raw uintptr) device.Stream {
		s, err := e.dev.WrapStream(raw)
		must(t, err)
		return s
	}
	for i, c := range []struct {
		s    device.Stream
		want string
	}{{named(0), "capture-query launch"}, {named(1), "capture-query launch"}, {s, "capture-query wait-value launch"},
		{named(1), "capture-query wait-value launch"},
		{named(0), "capture-query launch"}} {
		if got := put(c.s); got != c.want {
			t.Errorf("operation %d: %s; want %s", i, got, c.want)
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	must(t, e.Drain(ctx))
}

// An operation does not wait for work that another stream got after the latest operation: that work may itself wait for
// a later operation.
func TestOrderWaitsForNothingElse(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	gate := mem.Add(1 << 19)
	must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 16, a)}))
	must(t, a.WaitValue64(gate, 1))
	must(t, e.Enqueue(2, []collective.Request{allReduce(mem, 16, b)}))
	must(t, b.WriteValue64(gate, 1))
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	must(t, b.Synchronize(ctx))
	must(t, a.Synchronize(ctx))
}
