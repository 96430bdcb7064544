package nvlink

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/test/testutil"
)

// The kernel and its shape follow from type, operator, ranks, alignment and size.
func TestLaunches(t *testing.T) {
	for _, n := range []int{2, 3, 4} {
		engines := mockEngines(t, n)
		e := engines[1]
		s, mem := newStream(t, e), memory(t, e, 64<<20)
		must(t, e.table.force("all_reduce:one_shot_ll/64,all_gather:one_shot_ll/64,reduce_scatter:one_shot_ll128/128,"+
			"reduce:two_shot_ll128/256,all_to_all:one_shot_ll/64", true))
		fast := map[int]string{2: "_n2", 4: "_n4"}[n]
		sum := ""
		ll := "ll128"
		if fast != "" {
			sum, ll = "_sum"+fast, "ll"
		}
		req := func(c collective.Collective, ty datatype.Type, op datatype.Op, count int64, shift int64) collective.Request {
			return collective.Request{Collective: c, Send: mem.Add(shift), Recv: mem.Add(32<<20 + shift), Count: count, Type: ty,
				Op: op, Root: n - 1, Stream: s}
		}
		for _, c := range []struct {
			r      collective.Request
			kernel string
		}{
			{req(collective.AllReduce, datatype.Float32, datatype.Sum, 256, 0), "all_reduce_one_shot_" + ll + "_float32" + sum},
			{req(collective.AllReduce, datatype.Float32, datatype.Max, 256, 0), "all_reduce_one_shot_ll128_float32"},
			{req(collective.AllReduce, datatype.Float32, datatype.Sum, 255, 0), "all_reduce_one_shot_ll128_float32"},
			{req(collective.AllReduce, datatype.Bfloat16, datatype.Avg, 256, 0),
				"all_reduce_one_shot_" + ll + "_bfloat16" + sum},
			{req(collective.AllReduce, datatype.Bfloat16, datatype.Avg, 256, 2), "all_reduce_one_shot_" + ll + "_bfloat16"},
			{req(collective.AllReduce, datatype.Int8, datatype.Sum, 256, 0), "all_reduce_one_shot_ll128_int8"},
			{req(collective.ReduceScatter, datatype.Float16, datatype.Sum, 256, 0), "reduce_scatter_ll128_float16" + sum},
			{req(collective.Reduce, datatype.Float32, datatype.Sum, 4096, 0), "reduce_ll128_float32" + sum},
			{req(collective.AllGather, datatype.Float64, datatype.Sum, 256, 0), "exchange_" + ll + fast},
			{req(collective.AllToAll, datatype.Int8, datatype.Sum, 255, 0), "exchange_ll128"},
			{req(collective.Broadcast, datatype.Int8, datatype.Sum, 1<<20, 0), "broadcast_ll128" + fast},
			{req(collective.Barrier, 0, 0, 0, 0), "exchange_" + ll + fast},
			{req(collective.AllGather, datatype.Int8, datatype.Sum, streamSliceFrom, 0), "point_to_point_stream"},
		} {
			calls := launches(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{c.r})) }))
			if len(calls) != 1 || calls[0].Kernel != c.kernel {
				t.Errorf("%d ranks, %v of %d × %v: %v, want %s", n, c.r.Collective, c.r.Count, c.r.Type, names(calls), c.kernel)
				continue
			}
			if strings.HasPrefix(c.kernel, "point") {
				continue
			}
			a := argsOf[collectiveArgs](t, calls[0])
			area := e.areas[ll128]
			if strings.Contains(c.kernel, "_ll_") {
				area = e.areas[1-ll128]
			} else if calls[0].Grid > coreBlocks {
				area = e.wide[ll128]
			}
			if a.rank != 1 || a.nranks != uint32(n) || a.window != area || a.abort == 0 ||
				a.epochs != uint64(e.launcher.State.Ptr()) {
				t.Errorf("%s: %+v", c.kernel, a)
			}
			if c.r.Collective != collective.Barrier && c.r.Collective != collective.Broadcast &&
				(a.send != uint64(c.r.Send) || a.recv != uint64(c.r.Recv)) {
				t.Errorf("%s: buffers %#x %#x", c.kernel, a.send, a.recv)
			}
			if calls[0].Block > 512 || calls[0].Block%32 != 0 || calls[0].Grid > uint32(e.maxBlocks[1]) {
				t.Errorf("%s: %d × %d threads", c.kernel, calls[0].Grid, calls[0].Block)
			}
		}
	}
}

// The hot paths allocate nothing.
func TestEnqueueAllocatesNothing(t *testing.T) {
	engines := mockEngines(t, 4)
	for name, reqs := range hotPaths(t, engines[1]) {
		e := engines[1]
		must(t, e.Enqueue(1, reqs))
		if n := testutil.Allocations(func() { must(t, e.Enqueue(1, reqs)) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// hotPaths are requests of rank 1 of four.
func hotPaths(t testing.TB, e *Engine) map[string][]collective.Request {
	s, mem := newStream(t, e), memory(t, e, 64<<20)
	out := mem.Add(32 << 20)
	counts, displs := []int64{64, 64, 64, 64}, []int64{0, 64, 128, 192}
	request := func(c collective.Collective, count int64) collective.Request {
		return collective.Request{Collective: c, Send: mem, Recv: out, Count: count, Type: datatype.Float32, Peer: 0, Root: 2,
			Stream: s}
	}
	v := request(collective.AllToAllV, 0)
	v.SendCounts, v.RecvCounts, v.SendDispls, v.RecvDispls = counts, counts, displs, displs
	d := request(collective.AllToAllVDevice, 0)
	d.DeviceCounts = collective.DeviceCounts{SendCounts: mem, SendDispls: mem.Add(32), RecvCounts: mem.Add(64),
		RecvDispls: mem.Add(96)}
	ring := []collective.Request{request(collective.Send, 256), request(collective.Recv, 256)}
	ring[1].Peer = 2
	return map[string][]collective.Request{
		"all_reduce":     {request(collective.AllReduce, 256)},
		"all_reduce 1M":  {request(collective.AllReduce, 1<<18)},
		"reduce":         {request(collective.Reduce, 1<<18)},
		"reduce_scatter": {request(collective.ReduceScatter, 256)},
		"all_gather":     {request(collective.AllGather, 256)},
		"all_gather 8M":  {request(collective.AllGather, 1<<19)},
		"broadcast":      {request(collective.Broadcast, 256)},
		"broadcast 1M":   {request(collective.Broadcast, 1<<18)},
		"gather":         {request(collective.Gather, 256)},
		"all_to_all_v":   {v},
		"device_counts":  {d},
		"send_recv":      ring,
		"send_recv 4M":   {request(collective.Send, 1<<20)},
		"barrier":        {request(collective.Barrier, 0)},
	}
}

// A small operation is one launch in one call into the driver, after a query of the capture status.
func TestSmallOperationsAreOneLaunch(t *testing.T) {
	for r, e := range mockEngines(t, 4) {
		for name, reqs := range hotPaths(t, e) {
			if strings.Contains(name, " ") {
				continue
			}
			for i := range reqs {
				if reqs[i].Collective == collective.Send || reqs[i].Collective == collective.Recv {
					reqs[i].Peer = (r + 2*i + 3) % 4 // around the ring
				}
			}
			calls := noted(t, func() { must(t, e.Enqueue(1, reqs)) })
			if got := kinds(calls); got != "capture-query launch" {
				t.Errorf("rank %d, %s: %s", r, name, got)
			}
			if n := len(calls[len(calls)-1].Params); n > 552 {
				t.Errorf("rank %d, %s: %d bytes of parameters", r, name, n)
			}
		}
	}
}

// BenchmarkEnqueue measures the CPU time of an eager operation with a mock driver that does next to nothing.
func BenchmarkEnqueue(b *testing.B) {
	e := mockEngines(b, 4)[1]
	for name, reqs := range hotPaths(b, e) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() { // must would double the cost: Helper inspects the stack
				if err := e.Enqueue(1, reqs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("driver", func(b *testing.B) { // one launch of the same parameters, and nothing else
		s := newStream(b, e)
		cfg := cuda.Launch1D(1, 64, 0)
		for b.Loop() {
			if err := s.LaunchRaw(e.kernels.move[exchanging][ll128][1], &cfg, launcher.Raw(e.args)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A kernel's report becomes an error with the peer it waited for and the latest operation; it also counts as unfinished
// work.
func TestReport(t *testing.T) {
	engines := mockEngines(t, 3)
	e := engines[0]
	s, mem := newStream(t, e), memory(t, e, 1<<20)
	must(t, e.Enqueue(7, []collective.Request{allReduce(mem, 16, s)}))
	if e.Unfinished() || e.Err() != nil {
		t.Fatalf("unfinished %v, %v", e.Unfinished(), e.Err())
	}
	w := e.launcher.Abort
	w.Peer.Store(2)
	w.Reported.Store(abort.Timeout)
	var ae *collective.Error
	if err := e.Err(); !errors.As(err, &ae) || !errors.Is(err, collective.ErrTimeout) || ae.Peer != 2 || ae.Seq != 7 ||
		ae.Op != "all_reduce" || ae.Rank != 0 {
		t.Errorf("%v", err)
	}
	if w.Abort.Load() == 0 {
		t.Error("later kernels are not told")
	}
	if !e.Unfinished() {
		t.Error("nothing was cut short")
	}
	cause := errors.New("later")
	e.Abort(cause)
	if errors.Is(e.Err(), cause) {
		t.Error("the second cause counts")
	}
	must(t, e.Close())
	if !e.Unfinished() || e.Err() == nil {
		t.Error("forgotten by Close")
	}
}

func TestUnfinished(t *testing.T) {
	e := mockEngines(t, 2)[0]
	s, mem := newStream(t, e), memory(t, e, 1<<20)
	must(t, s.WaitValue64(mem.Add(1<<19), 1))
	must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 16, s)}))
	if !e.Unfinished() {
		t.Error("the work has not begun")
	}
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer stop()
	if err := e.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain: %v", err)
	}
	must(t, e.dev.CopyIn(mem.Add(1<<19), []byte{1}))
	ctx, stop2 := context.WithTimeout(context.Background(), time.Minute)
	defer stop2()
	must(t, e.Drain(ctx))
	if e.Unfinished() {
		t.Error("the work is done")
	}
}

// A stream of another kind of device, or of another GPU, is refused before anything is enqueued.
func TestForeignStreams(t *testing.T) {
	engines := mockEngines(t, 2)
	e, mem := engines[0], memory(t, engines[0], 1<<20)
	other := newStream(t, engines[1])
	h, err := host.Open(0)
	must(t, err)
	defer func() { _ = h.Close() }()
	hs, err := h.NewStream()
	must(t, err)
	defer func() { _ = hs.Close() }()
	for name, s := range map[string]device.Stream{"host": hs, "other GPU": other} {
		var err error
		calls := noted(t, func() { err = e.Enqueue(3, []collective.Request{allReduce(mem, 16, s)}) })
		var ae *collective.Error
		if !errors.As(err, &ae) || ae.Seq != 3 || len(calls) > 0 {
			t.Errorf("%s: %v, %s", name, err, kinds(calls))
		}
	}
}

// All kernels that wait for peers take the same part of an SM's cache, or two of them would never run on one SM.
func TestKernelsHaveOneCarveout(t *testing.T) {
	e := mockEngines(t, 2)[0]
	k, n := &e.kernels, 0
	check := func(f *cuda.Function) {
		if f == nil {
			return
		}
		if a, err := f.Attributes(); err != nil || a.SharedCarveout != carveout {
			t.Errorf("%s: %d %%, %v", f.Name(), a.SharedCarveout, err)
		}
		n++
	}
	for _, protocols := range k.reduce {
		for _, types := range protocols {
			for _, f := range types {
				check(f[0])
				check(f[1])
			}
		}
	}
	for _, protocols := range k.move {
		for _, f := range protocols {
			check(f[0])
			check(f[1])
		}
	}
	for _, f := range []*cuda.Function{k.aligned[0], k.aligned[1], k.unaligned[0], k.unaligned[1], k.counted} {
		check(f)
	}
	if n < 50 {
		t.Errorf("%d kernels", n)
	}
}
