package nvlink

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/driver/mockcuda"
	"github.com/goccl/goccl/transport/ipc"
)

func copyEngines(t *testing.T, n int) []*Engine {
	t.Helper()
	t.Setenv("GOCCL_COPY_ENGINE", "1")
	engines := mockEngines(t, n)
	for r, e := range engines {
		if e.symmetric == nil {
			t.Fatalf("rank %d has no windows", r)
		}
	}
	return engines
}

func moves(r *Engine, c algorithm.Collective, send, recv device.Ptr, count int64, s device.Stream) algorithm.Request {
	return algorithm.Request{Collective: c, Send: send, Recv: recv, Count: count, Type: datatype.Int8, Stream: s}
}

// A barrier, a copy to each peer's part at the same offset, the next rank first, the own slice, a barrier: eager and captured, in place and not. What the
// streams do then is the collective.
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
			coll    algorithm.Collective
			stride  int64
			inPlace bool
		}{
			"all-gather":          {algorithm.AllGather, 0, false},
			"all-gather in place": {algorithm.AllGather, 0, true},
			"all-to-all":          {algorithm.AllToAll, slice, false},
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
						calls := noted(t, func() { must(t, e.Enqueue(1, []algorithm.Request{moves(e, c.coll, from, recv[r], slice, s)})) })
						star, own := "", 1
						if captured {
							star = "*"
							g, err := s.EndCapture()
							must(t, err)
							x, err := g.Instantiate()
							must(t, err)
							must(t, x.Launch(s))
							must(t, errors.Join(g.Close(), x.Close()))
						}
						if c.inPlace {
							own = 0
						}
						want := fmt.Sprintf("capture-query%s launch%[1]s%s capture-query%[1]s launch%[1]s", star, strings.Repeat(" copy"+star, n-1+own))
						if got := kinds(calls); got != want {
							t.Fatalf("rank %d: %s; want %s", r, got, want)
						}
						copied := calls[2 : len(calls)-2]
						for k, call := range copied {
							p := (r + 1 + k) % n
							dst, src := recv[p].Add(int64(r)*slice), from.Add(int64(p)*c.stride)
							if call.A != uint64(dst) || call.B != uint64(src) || call.C != slice || call.Stream != s.Raw() {
								t.Errorf("rank %d, to rank %d: %d bytes from %#x to %#x on %#x; want %d, %#x, %#x, %#x", r, p, call.C, call.B, call.A, call.Stream, slice, src, dst, s.Raw())
							}
						}
						for _, l := range []mockcuda.Call{calls[1], calls[len(calls)-1]} {
							if !strings.HasPrefix(l.Kernel, "exchange_") || l.Stream != s.Raw() || (ticketOf(l) == 0) != captured {
								t.Errorf("rank %d: %s on %#x, ticket %#x", r, l.Kernel, l.Stream, ticketOf(l))
							}
						}
					}
					ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
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

// What is small, elsewhere, in part in a window, in place or forced goes by kernels.
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
	copied := func(r algorithm.Request) bool {
		return strings.Contains(kinds(noted(t, func() { must(t, e.Enqueue(1, []algorithm.Request{r})) })), "copy")
	}
	p := mem[0]
	for name, c := range map[string]struct {
		r    algorithm.Request
		want bool
	}{
		"large":               {moves(e, algorithm.AllGather, other, p, copyFrom, s), true},
		"all of the window":   {moves(e, algorithm.AllToAll, other, p, size/2, s), true},
		"small":               {moves(e, algorithm.AllGather, other, p, copyFrom-1, s), false},
		"no window":           {moves(e, algorithm.AllGather, p, other, copyFrom, s), false},
		"past its end":        {moves(e, algorithm.AllGather, other, p.Add(size-2*copyFrom+1), copyFrom, s), false},
		"before it":           {moves(e, algorithm.AllGather, other, p.Add(-1), copyFrom, s), false},
		"all-to-all in place": {moves(e, algorithm.AllToAll, p, p, copyFrom, s), false},
		"another collective":  {algorithm.Request{Collective: algorithm.Broadcast, Send: p, Recv: p, Count: copyFrom, Type: datatype.Int8, Stream: s}, false},
	} {
		if got := copied(c.r); got != c.want {
			t.Errorf("%s: copied %v", name, got)
		}
	}
	must(t, e.Force("all_gather:one_shot_ll128"))
	if copied(moves(e, algorithm.AllGather, other, p, copyFrom, s)) {
		t.Error("copied, though something else is forced")
	}
	if !copied(moves(e, algorithm.AllToAll, other, p, copyFrom, s)) {
		t.Error("not copied, though nothing is forced for it")
	}
}

// On other streams the barriers wait for earlier work, and are waited for; the copies between them need no mark.
func TestCopyEnginesInOrder(t *testing.T) {
	engines := copyEngines(t, 2)
	mem := make([]device.Ptr, len(engines))
	for r, e := range engines {
		mem[r] = memory(t, e, 4*copyFrom)
		registerWindow(t, e, mem[r], 4*copyFrom)
	}
	e := engines[0]
	a, b, other := newStream(t, e), newStream(t, e), memory(t, e, 4*copyFrom)
	put := func(s *cuda.Stream, r algorithm.Request) string {
		return kinds(noted(t, func() { must(t, e.Enqueue(1, []algorithm.Request{r})) }))
	}
	const copies = " copy copy capture-query launch"
	for i, c := range []struct{ got, want string }{
		{put(a, allReduce(other, 16, a)), "capture-query launch"},
		{put(b, moves(e, algorithm.AllGather, other, mem[0], copyFrom, b)), "capture-query wait-value launch" + copies},
		{put(b, moves(e, algorithm.AllToAll, other, mem[0], copyFrom, b)), "capture-query launch" + copies},
		{put(a, allReduce(other, 16, a)), "capture-query wait-value launch"},
	} {
		if c.got != c.want {
			t.Errorf("step %d: %s; want %s", i, c.got, c.want)
		}
	}
	// A barrier behind copies does not overlap them; whether the first may overlap what is before it is the engine's as ever.
	if before := engines[0].overlaps; before != engines[1].overlaps {
		t.Error("a barrier has left the engine changed")
	}
	// Work that did not end with its barrier has a mark too.
	w, _ := windowAt(t, e, mem[0], copyFrom)
	gate := other.Add(3 * copyFrom)
	must(t, a.WaitValue64(gate, 1))
	r := moves(e, algorithm.AllGather, other, mem[0], copyFrom, a)
	part := w.parts[1].mapping
	w.parts[1].mapping = &ipc.Mapping{Ptr: 8 - device.Ptr(mem[0]-w.base)} // the driver refuses it
	var err error
	calls := noted(t, func() { err = e.Enqueue(1, []algorithm.Request{r}) })
	w.parts[1].mapping = part
	if got := kinds(calls); err == nil || got != "capture-query launch record" {
		t.Errorf("a copy to nowhere: %v, %s", err, got)
	}
	if idle, err := e.order.Idle(); idle || err != nil {
		t.Errorf("idle %v, %v", idle, err)
	}
	must(t, b.WriteValue64(gate, 1))
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	must(t, e.Drain(ctx))
}

// Copy engines are for all ranks or for none: one that does not want them decides for all.
func TestCopyEnginesOff(t *testing.T) {
	engines := mockEngines(t, 2)
	e := engines[0]
	if e.symmetric != nil {
		t.Error("they are on")
	}
	mem := memory(t, e, 4*copyFrom)
	must(t, registerWindow(t, e, mem, 4*copyFrom).Close())
	listed := func(e *Engine) (n int) {
		for _, a := range e.Algorithms() {
			if a.Name == "copy_engine" {
				n++
				if a.Forceable || len(a.Chosen) > 0 || a.Tags["copy_engine"] != 1 || a.Least != 2*copyFrom {
					t.Errorf("%+v", a)
				}
			}
		}
		return n
	}
	if n := listed(e); n != 0 {
		t.Errorf("listed %d times", n)
	}
	if n := listed(copyEngines(t, 2)[1]); n != 2 {
		t.Errorf("where they are on, listed %d times", n)
	}
	t.Setenv("GOCCL_COPY_ENGINE", "1")
	boots := bootstrap.NewLocalGroup(2)
	defer func() { _ = errors.Join(boots[0].Close(), boots[1].Close()) }()
	go func() { _, _ = boots[1].AllGather(context.Background(), []byte("\x00\x00\x00a GPU")) }()
	if terms, err := meetRanks(context.Background(), boots[0], e.dev); terms.copies || terms.sharing != 1 || err != nil {
		t.Errorf("%+v, %v", terms, err)
	}
}
