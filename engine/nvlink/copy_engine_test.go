package nvlink

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/mockcuda"
	"github.com/goccl/goccl/test/testutil"
)

func copyEngines(t *testing.T, n int) []*Engine {
	t.Helper()
	t.Setenv("NCCL_CTA_POLICY", "EFFICIENCY") // from copyFrom, with barriers of kernels
	engines := mockEngines(t, n)
	for r, e := range engines {
		// Without graph orders, which order_graph_test.go tests.
		setOrder(t, e, e.launcher.State.Ptr().Add(stateTicket), cuda.SeparateGraphs)
		if e.windows == nil {
			t.Fatalf("rank %d has no windows", r)
		}
	}
	return engines
}

// windowed returns engines with copy engines, each with a window of the given number of bytes.
func windowed(t *testing.T, n int, bytes int64) (engines []*Engine, mem []device.Ptr) {
	t.Helper()
	for _, e := range copyEngines(t, n) {
		p := memory(t, e, bytes)
		registerWindow(t, e, p, bytes)
		engines, mem = append(engines, e), append(mem, p)
	}
	return engines, mem
}

// kindsBeside returns the kinds of calls; all calls that are not on s must be on the side stream.
func kindsBeside(calls []mockcuda.Call, s *cuda.Stream) []string {
	var all []string
	for _, c := range calls {
		k := kinds([]mockcuda.Call{c})
		if c.Stream != s.Raw() {
			k += " of the side"
		}
		all = append(all, k)
	}
	return all
}

// events returns the events that are recorded on s or waited for there; if s is nil, the events of the other streams.
func events(calls []mockcuda.Call, s *cuda.Stream) (all []uint64) {
	for _, c := range calls {
		if (c.Kind == mockcuda.RecordEvent || c.Kind == mockcuda.WaitEvent) &&
			(s != nil && c.Stream == s.Raw() || s == nil && c.Stream != calls[0].Stream) {
			all = append(all, c.A)
		}
	}
	return all
}

func moves(r *Engine, c collective.Collective, send, recv device.Ptr, count int64, s device.Stream) collective.Request {
	return collective.Request{Collective: c, Send: send, Recv: recv, Count: count, Type: datatype.Int8, Stream: s}
}

// A collective is a barrier, a copy to each peer's part at the same offset with the next rank first, and a barrier:
// eager and captured, in place and not. This rank's own slice is copied on the side stream, between the first and the
// second barrier. The streams' copies then amount to the collective.
func TestCopyEngines(t *testing.T) {
	const slice, offset = copyFrom + 48, 4096
	for _, n := range []int{2, 3, 4} {
		engines := copyEngines(t, n)
		total := int64(n) * slice
		send, recv, window := make([]device.Ptr, n), make([]device.Ptr, n), make([]device.Ptr, n)
		streams := make([]*cuda.Stream, n)
		for r, e := range engines {
			streams[r] = newStream(t, e)
			send[r] = memory(t, e, total)
			window[r] = memory(t, e, int64(r)*512+2*offset+total).Add(int64(r) * 512) // anywhere in the allocation
			recv[r] = window[r].Add(offset)
			registerWindow(t, e, window[r], offset+total)
		}
		for name, c := range map[string]struct {
			coll    collective.Collective
			stride  int64
			inPlace bool
		}{
			"all-gather":          {collective.AllGather, 0, false},
			"all-gather in place": {collective.AllGather, 0, true},
			"all-to-all":          {collective.AllToAll, slice, false},
		} {
			for _, captured := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d ranks/%s/captured %v", n, name, captured), func(t *testing.T) {
					inputs := make([][]byte, n)
					for r := range inputs {
						inputs[r] = make([]byte, total)
						for i := 0; i < int(total); i += 16 {
							binary.LittleEndian.PutUint64(inputs[r][i:], uint64(i)<<16|uint64(r)<<8|uint64(c.coll))
						}
					}
					for r, e := range engines {
						must(t, e.dev.CopyIn(recv[r], bytes.Repeat([]byte{0xa5}, int(total))))
						must(t, e.dev.CopyIn(send[r], inputs[r]))
						if c.inPlace {
							must(t, e.dev.CopyIn(recv[r].Add(int64(r)*slice), inputs[r][:slice]))
						}
					}
					for r, e := range engines {
						s, from := streams[r], send[r]
						if c.inPlace {
							from = recv[r].Add(int64(r) * slice)
						}
						if captured {
							must(t, s.BeginCapture(cuda.CaptureRelaxed))
						}
						calls := noted(t,
							func() { must(t, e.Enqueue(1, []collective.Request{moves(e, c.coll, from, recv[r], slice, s)})) })
						star := ""
						if captured {
							star = "*"
							g, err := s.EndCapture()
							must(t, err)
							x, err := g.Instantiate()
							must(t, err)
							must(t, x.Launch(s))
							must(t, errors.Join(g.Close(), x.Close()))
						}
						want := []string{"capture-query" + star, "launch" + star}
						if !c.inPlace {
							want = append(want, "capture-query of the side", "record"+star)
						}
						for k := 1; k < n; k++ {
							if want = append(want, "copy"+star); k == 1 && !c.inPlace {
								want = append(want, "wait-event of the side", "copy"+star+" of the side")
							}
						}
						if !c.inPlace {
							want = append(want, "record"+star+" of the side", "wait-event"+star)
						}
						want = append(want, "capture-query"+star, "launch"+star)
						if got := kindsBeside(calls, s); !slices.Equal(got, want) {
							t.Fatalf("rank %d: %q; want %q", r, got, want)
						}
						if !c.inPlace {
							ours, theirs := events(calls, s), events(calls, nil)
							if len(ours) != 2 || !slices.Equal(ours, theirs) || ours[0] == ours[1] {
								t.Errorf("rank %d: records and waits for events %#x, the side for %#x", r, ours, theirs)
							}
						}
						k := 0
						for _, call := range calls {
							if call.Kind != mockcuda.Copy {
								continue
							}
							p := r
							if call.Stream == s.Raw() {
								k++
								p = (r + k) % n
							}
							dst, src := recv[p].Add(int64(r)*slice), from.Add(int64(p)*c.stride)
							if call.A != uint64(dst) || call.B != uint64(src) || call.C != slice {
								t.Errorf("rank %d, to rank %d: %d bytes from %#x to %#x; want %d, %#x, %#x", r, p, call.C, call.B, call.A,
									slice, src, dst)
							}
						}
						for _, l := range []mockcuda.Call{calls[1], calls[len(calls)-1]} {
							if !strings.HasPrefix(l.Kernel, "exchange_") || l.Stream != s.Raw() || (ticketOf(l) == 0) != captured {
								t.Errorf("rank %d: %s on %#x, ticket %#x", r, l.Kernel, l.Stream, ticketOf(l))
							}
						}
					}
					ctx, stop := context.WithTimeout(context.Background(), time.Minute)
					defer stop()
					for _, s := range streams {
						must(t, s.Synchronize(ctx))
					}
					for r, e := range engines {
						got := make([]byte, total)
						must(t, e.dev.CopyOut(got, recv[r]))
						for p := range n {
							want := inputs[p][:slice]
							if c.stride != 0 {
								want = inputs[p][int64(r)*slice:][:slice]
							}
							if !bytes.Equal(got[int64(p)*slice:][:slice], want) {
								t.Errorf("rank %d has not what rank %d sent", r, p)
							}
						}
					}
				})
			}
		}
	}
}

// Small, unregistered, partly registered, in-place or forced operations use kernels.
func TestCopyEnginesWhereNot(t *testing.T) {
	engines := copyEngines(t, 2)
	const size = 4 * copyFrom
	mem := make([]device.Ptr, len(engines))
	for r, e := range engines {
		mem[r] = memory(t, e, 2*size)
		registerWindow(t, e, mem[r], size)
	}
	e, s := engines[0], newStream(t, engines[0])
	other := memory(t, e, 2*size)
	copied := func(r collective.Request) bool {
		return strings.Contains(kinds(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{r})) })), "copy")
	}
	p := mem[0]
	for name, c := range map[string]struct {
		r    collective.Request
		want bool
	}{
		"large":               {moves(e, collective.AllGather, other, p, copyFrom, s), true},
		"all of the window":   {moves(e, collective.AllToAll, other, p, size/2, s), true},
		"small":               {moves(e, collective.AllGather, other, p, copyFrom-1, s), false},
		"no window":           {moves(e, collective.AllGather, p, other, copyFrom, s), false},
		"past its end":        {moves(e, collective.AllGather, other, p.Add(size-2*copyFrom+1), copyFrom, s), false},
		"before it":           {moves(e, collective.AllGather, other, p.Add(-1), copyFrom, s), false},
		"all-to-all in place": {moves(e, collective.AllToAll, p, p, copyFrom, s), false},
		"another collective": {collective.Request{Collective: collective.Broadcast, Send: p, Recv: p, Count: copyFrom,
			Type: datatype.Int8, Stream: s}, false},
	} {
		if got := copied(c.r); got != c.want {
			t.Errorf("%s: copied %v", name, got)
		}
	}
	must(t, e.Force("all_gather:one_shot_ll128"))
	if copied(moves(e, collective.AllGather, other, p, copyFrom, s)) {
		t.Error("copied, though something else is forced")
	}
	if !copied(moves(e, collective.AllToAll, other, p, copyFrom, s)) {
		t.Error("not copied, though nothing is forced for it")
	}
}

// On other streams the barriers wait for earlier work, and later work waits for them; the copies between them need no
// mark.
func TestCopyEnginesInOrder(t *testing.T) {
	engines, mem := windowed(t, 2, 4*copyFrom)
	e := engines[0]
	a, b, other := newStream(t, e), newStream(t, e), memory(t, e, 4*copyFrom)
	put := func(s *cuda.Stream, r collective.Request) string {
		return kinds(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{r})) }))
	}
	// one to the peer, one beside it
	const copies = " capture-query record copy wait-event copy record wait-event capture-query launch"
	for i, c := range []struct{ got, want string }{
		{put(a, allReduce(other, 16, a)), "capture-query launch"},
		{put(b, moves(e, collective.AllGather, other, mem[0], copyFrom, b)), "capture-query wait-value launch" + copies},
		{put(b, moves(e, collective.AllToAll, other, mem[0], copyFrom, b)), "capture-query launch" + copies},
		{put(a, allReduce(other, 16, a)), "capture-query wait-value launch"},
	} {
		if c.got != c.want {
			t.Errorf("step %d: %s; want %s", i, c.got, c.want)
		}
	}
	// A barrier after copies does not overlap them. The first barrier may overlap earlier work as usual.
	if before := engines[0].overlaps; before != engines[1].overlaps {
		t.Error("a barrier has left the engine changed")
	}
	// Work that did not end with its barrier has a mark too.
	w, _ := windowAt(t, e, mem[0], copyFrom)
	gate := other.Add(3 * copyFrom)
	must(t, a.WaitValue64(gate, 1))
	r := moves(e, collective.AllGather, other, mem[0], copyFrom, a)
	part := &w.Parts().Ptr[1]
	right := *part
	*part = 8 - device.Ptr(mem[0]-w.Base()) // the driver refuses it
	var err error
	calls := noted(t, func() { err = e.Enqueue(1, []collective.Request{r}) })
	*part = right
	// The side was forked, so it is joined even after the error.
	if got := kinds(calls); err == nil || got != "capture-query launch capture-query record wait-event copy record "+
		"wait-event record" {
		t.Errorf("a copy to nowhere: %v, %s", err, got)
	}
	if idle, err := e.launcher.Order.Idle(); idle || err != nil {
		t.Errorf("idle %v, %v", idle, err)
	}
	must(t, b.WriteValue64(gate, 1))
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	must(t, e.Drain(ctx))
}

// One side serves eager work and captures in turn. If it belongs to another capture, the own slice is copied in order.
func TestCopyEnginesBesideCaptures(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	engines, mem := windowed(t, 2, 4*copyFrom)
	e := engines[0]
	a, b, c, other := newStream(t, e), newStream(t, e), newStream(t, e), memory(t, e, 4*copyFrom)
	on := func(s *cuda.Stream) string {
		t.Helper()
		calls := noted(t, func() {
			must(t, e.Enqueue(1, []collective.Request{moves(e, collective.AllToAll, other, mem[0], copyFrom, s)}))
		})
		var what []string
		for _, call := range calls {
			if call.Kind == mockcuda.Copy {
				what = append(what, kindsBeside([]mockcuda.Call{call}, s)...)
			}
		}
		return strings.Join(what, ", ")
	}
	const beside, inOrder = "copy, copy of the side", "copy, copy"
	const captured, capturedInOrder = "copy*, copy* of the side", "copy*, copy*"
	end := func(s *cuda.Stream) {
		t.Helper()
		g, err := s.EndCapture()
		must(t, err)
		must(t, g.Close())
	}
	for _, mode := range []cuda.CaptureMode{cuda.CaptureGlobal, cuda.CaptureThreadLocal, cuda.CaptureRelaxed} {
		expect := func(what string, s *cuda.Stream, want string) {
			t.Helper()
			if got := on(s); got != want {
				t.Errorf("mode %v, %s: %s; want %s", mode, what, got, want)
			}
		}
		expect("eager", a, beside)
		must(t, a.BeginCapture(mode))
		expect("eager, beside a capture that has not begun to use the side", b, beside)
		expect("captured", a, captured)
		expect("eager, beside a capture with the side", b, inOrder)
		must(t, c.BeginCapture(mode))
		expect("another capture", c, capturedInOrder)
		expect("captured again", a, captured)
		end(a)
		expect("the other capture, once the first is over", c, captured)
		end(c)
		expect("eager again", b, beside)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	must(t, e.Drain(ctx))
}

// A call allocates nothing in Go.
func TestCopyEnginesAllocateNothing(t *testing.T) {
	engines, mem := windowed(t, 2, 4*copyFrom)
	e := engines[0]
	r := []collective.Request{moves(e, collective.AllToAll, memory(t, e, 4*copyFrom), mem[0], copyFrom, newStream(t, e))}
	if n := testutil.Allocations(func() { must(t, e.Enqueue(1, r)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
