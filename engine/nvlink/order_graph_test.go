package nvlink

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/test/mockcuda"
)

// captureOn captures the work of do on streams into a graph; the other streams are forked from the first and joined to
// it.
func captureOn(t testing.TB, streams []*cuda.Stream, do func()) (x *cuda.Exec, nodes int) {
	t.Helper()
	must(t, streams[0].BeginCapture(cuda.CaptureRelaxed))
	for _, s := range streams[1:] {
		must(t, device.Join(s, streams[0]))
	}
	do()
	for _, s := range streams[1:] {
		must(t, device.Join(streams[0], s))
	}
	g, err := streams[0].EndCapture()
	must(t, err)
	nodes, err = g.Nodes()
	must(t, err)
	x, err = g.Instantiate()
	must(t, errors.Join(err, g.Close()))
	t.Cleanup(func() { _ = x.Close() })
	return x, nodes
}

// inAnyOrder does the same on a mock driver that runs work in many orders, and checks that kernels follow the host's
// calls in all of them.
func inAnyOrder(t *testing.T, do func()) {
	t.Helper()
	for seed := uint64(1); seed <= 5; seed++ {
		calls := noted(t, func() {
			notes.Seed(seed)
			defer notes.Seed(0)
			do()
		})
		if err := mockcuda.InOrder(calls, mockcuda.Communicator); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func drained(t *testing.T, e *Engine) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	must(t, e.Drain(ctx))
}

// Alternate between two streams of one capture, without an edge between them.
func TestOrderInOneCapture(t *testing.T) {
	for _, graphs := range []cuda.GraphOrder{cuda.OrderedGraphs, cuda.SeparateGraphs} {
		t.Run(fmt.Sprintf("order %v", graphs), func(t *testing.T) {
			e := mockEngines(t, 2)[0]
			setOrder(t, e, e.launcher.State.Ptr().Add(stateTicket), graphs)
			s, mem := []*cuda.Stream{newStream(t, e), newStream(t, e)}, memory(t, e, 1<<20)
			inAnyOrder(t, func() {
				x, _ := captureOn(t, s, func() {
					for i := range 8 {
						must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 512, s[i%2])}))
					}
				})
				for range 100 {
					must(t, x.Launch(s[0]))
				}
				for done := false; !done; { // each query lets the driver do a little
					var err error
					done, err = s[0].Query()
					must(t, err)
				}
			})
		})
	}
}

// A graph on one stream, eager work on another, and no dependency between them.
func TestOrderOfReplaysAndEagerWork(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	inAnyOrder(t, func() {
		x, _ := captureOn(t, []*cuda.Stream{a},
			func() { must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 512, a)})) })
		for range 200 {
			must(t, x.Launch(a))
			must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 512, b)}))
		}
		drained(t, e)
	})
}

// One stream in one capture gets a chain of launches that may overlap, as without an order, plus a wait at the head and
// a record at the end. Launches with more dependencies do not overlap. Separate graphs have neither, and eager work
// beside them needs no event.
func TestOrderOfOneStreamCostsTwoNodes(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	const ops = 10
	for _, c := range []struct {
		graphs    cuda.GraphOrder
		streams   []*cuda.Stream
		nodes     int
		unchained int
		eager     string
	}{
		{cuda.OrderedGraphs, []*cuda.Stream{a}, ops + 2, 1, "capture-query wait-event launch record"},
		{cuda.OrderedGraphs, []*cuda.Stream{a, b}, ops + 2, ops, "capture-query wait-event launch record"},
		{cuda.SeparateGraphs, []*cuda.Stream{a}, ops, 0, "capture-query launch"},
		{cuda.SeparateGraphs, []*cuda.Stream{a, b}, ops, ops - 1, "capture-query launch"},
		{cuda.UnorderedCaptures, []*cuda.Stream{a, b}, ops, 0, "capture-query launch"},
	} {
		setOrder(t, e, e.launcher.State.Ptr().Add(stateTicket), c.graphs)
		must(t, e.dev.CopyIn(e.launcher.State.Ptr().Add(stateTicket), make([]byte, 8)))
		var calls []mockcuda.Call
		_, nodes := captureOn(t, c.streams, func() {
			calls = noted(t, func() {
				for i := range ops {
					must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 512, c.streams[i%len(c.streams)])}))
				}
			})
		})
		unchained := 0
		for _, l := range launches(calls) {
			unchained += plain.Bit[int](!l.Overlap)
		}
		if nodes != c.nodes || unchained != c.unchained {
			t.Errorf("order %v, %d streams: %d nodes, want %d; %d launches overlap nothing, want %d", c.graphs,
				len(c.streams), nodes, c.nodes, unchained, c.unchained)
		}
		if got := kinds(noted(t,
			func() { must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 512, a)})) })); got != c.eager {
			t.Errorf("order %v, eager work after the capture: %s; want %s", c.graphs, got, c.eager)
		}
	}
}

// PyTorch runs asynchronous collectives on a separate stream, which the model's stream joins after each one. A
// collective must depend only on the model's work before it and on the collective before it, so that it overlaps the
// model's later work. A driver that does not report the dependencies of nodes keeps all of them, and nothing overlaps.
func TestOrderReducesTheDependenciesOfACommunicationStream(t *testing.T) {
	for _, weak := range []mockcuda.Weakness{0, mockcuda.KeepsEdges} {
		e := mockEngines(t, 2)[0]
		model, comm, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
		const layers, kernels = 6, 5
		step := func() []mockcuda.Call {
			return noted(t, func() {
				notes.Weaken(weak)
				defer notes.Weaken(0)
				for range layers {
					for range kernels {
						must(t, model.Memset(mem, 0, 64))
					}
					must(t, device.Join(comm, model))
					must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 512, comm)}))
					must(t, device.Join(model, comm))
				}
			})
		}
		var calls []mockcuda.Call
		x, nodes := captureOn(t, []*cuda.Stream{model, comm}, func() { calls = step() })
		apart := 0
		for _, l := range launches(calls) {
			apart += plain.Bit[int](!l.Overlap)
		}
		want := 1 // the first one follows the wait for work outside of the graph, too
		if weak != 0 {
			want = layers
		}
		if apart != want || nodes != layers*(kernels+1)+2 {
			t.Errorf("weak %d: %d launches overlap nothing, want %d; %d nodes", weak, apart, want, nodes)
		}
		must(t, errors.Join(x.Launch(model), e.Enqueue(1, []collective.Request{allReduce(mem, 512, comm)})))
		drained(t, e)
	}
}

// A graph launch counts as work until it has ended; a bounded wait for it returns an error in time.
func TestOrderWaitsForReplays(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	gate := mem.Add(1 << 19)
	x, _ := captureOn(t, []*cuda.Stream{a}, func() { must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 16, a)})) })
	must(t, a.WaitValue64(gate, 1))
	must(t, x.Launch(a))
	if idle, err := e.launcher.Order.Idle(); idle || err != nil {
		t.Errorf("a replay is under way: idle %v, %v", idle, err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer stop()
	if err := e.launcher.Order.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait for what does not end: %v", err)
	}
	must(t, b.WriteValue64(gate, 1))
	drained(t, e)
}

// An invalidated or discarded capture has no effect on other captures, even on its streams.
func TestOrderAfterCapturesThatFail(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	put := func(s *cuda.Stream) error { return e.Enqueue(1, []collective.Request{allReduce(mem, 16, s)}) }
	inAnyOrder(t, func() {
		must(t, a.BeginCapture(cuda.CaptureRelaxed)) // never joined: the driver refuses it
		must(t, device.Join(b, a))
		must(t, errors.Join(put(a), put(b)))
		if _, err := a.EndCapture(); err == nil {
			t.Fatal("a capture that is not joined")
		}
		must(t, a.BeginCapture(cuda.CaptureRelaxed)) // invalidated
		must(t, put(a))
		if _, err := a.Query(); err != nil {
			must(t, errors.Join(put(b)))
		}
		if g, err := a.EndCapture(); err == nil {
			must(t, g.Close()) // discarded
		}
		must(t, errors.Join(put(a), put(b)))
		x, _ := captureOn(t, []*cuda.Stream{a, b}, func() { must(t, errors.Join(put(a), put(b), put(a))) })
		must(t, errors.Join(x.Launch(b), put(a), x.Launch(a)))
		drained(t, e)
	})
}
