package nvlink

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/driver/mockcuda"
)

func kinds(calls []mockcuda.Call) string {
	var s []string
	for _, c := range calls {
		k := c.Kind.String()
		if c.Captured {
			k += "*"
		}
		s = append(s, k)
	}
	return strings.Join(s, " ")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An operation on the stream of the one before is a launch and nothing else; on another stream it first waits until as many blocks have ended as were
// launched. Captured ones are launches without a ticket, and nobody waits for them.
func TestOrder(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	word := uint64(e.state.Ptr()) + stateTicket
	blocks := uint64(0)
	put := func(name string, s *cuda.Stream, count int64, want string) {
		t.Helper()
		calls := noted(t, func() { must(t, e.Enqueue(1, []algorithm.Request{allReduce(mem, count, s)})) })
		if got := kinds(calls); got != want {
			t.Fatalf("%s: %s; want %s", name, got, want)
		}
		for _, c := range calls {
			ticket := word
			if c.Captured {
				ticket = 0
			}
			switch {
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
	put("captured", b, 16, "capture-query* launch*")
	put("eager beside the capture", a, 16, same)
	g, err := b.EndCapture()
	must(t, err)
	x, err := g.Instantiate()
	must(t, err)
	must(t, x.Launch(b))
	must(t, x.Launch(b))
	put("after a capture on another stream", a, 16, same)
	put("after the graph", b, 16, other)
	must(t, errors.Join(g.Close(), x.Close()))
	if blocks < 10 {
		t.Errorf("only %d blocks: the sizes show nothing", blocks)
	}
	if idle, err := e.order.Idle(); !idle || err != nil {
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

// A launch that the driver refuses does not count: nobody may wait for it.
func TestOrderForgetsFailedLaunches(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	must(t, e.Enqueue(1, []algorithm.Request{allReduce(mem, 16, a)}))
	for _, s := range []*cuda.Stream{a, b} {
		cfg := cuda.Launch1D(7, 4096, 0)
		if err := s.LaunchInOrder(e.kernels.move[exchanging][ll128][0], &cfg, params(e.args), e.order); err == nil {
			t.Fatal("4096 threads")
		}
		if err := s.LaunchInOrder(e.kernels.move[exchanging][ll128][0], &cfg, nil, e.order); err == nil {
			t.Fatal("no room for a ticket")
		}
	}
	calls := noted(t, func() { must(t, e.Enqueue(2, []algorithm.Request{allReduce(mem, 16, b)})) })
	if got := kinds(calls); got != "capture-query wait-value launch" || calls[1].B != 1 {
		t.Errorf("%s, for %d", got, calls[1].B)
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	must(t, b.Synchronize(ctx))
	must(t, e.Drain(ctx))
}

// Work that is no kernel of ours is known by an event; the latest mark is what others wait for.
func TestOrderOfOtherWork(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	work := func(s *cuda.Stream) string {
		return kinds(noted(t, func() {
			must(t, e.order.Enter(s))
			must(t, s.Copy(mem.Add(64), mem, 8))
			must(t, e.order.Leave(s))
		}))
	}
	kernel := func(s *cuda.Stream) string {
		return kinds(noted(t, func() { must(t, e.Enqueue(1, []algorithm.Request{allReduce(mem, 16, s)})) }))
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
	// Neither mark alone is enough to be idle.
	gate := mem.Add(1 << 19)
	for value, do := range []func(*cuda.Stream) string{work, kernel} {
		must(t, a.WaitValue64(gate, uint64(value+1)))
		do(a)
		if idle, err := e.order.Idle(); idle || err != nil {
			t.Errorf("step %d: idle %v, %v", value, idle, err)
		}
		must(t, b.WriteValue64(gate, uint64(value+1)))
		if idle, err := e.order.Idle(); !idle || err != nil {
			t.Errorf("step %d done: idle %v, %v", value, idle, err)
		}
	}
}

// Without waits for words there is an event behind every launch.
func TestOrderWithoutWords(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	o, err := e.dev.NewOrder(0)
	must(t, err)
	must(t, e.order.Close())
	e.order = o
	for i, c := range []struct {
		s    *cuda.Stream
		want string
	}{{a, "capture-query launch record"}, {a, "capture-query launch record"}, {b, "capture-query wait-event launch record"}} {
		calls := noted(t, func() { must(t, e.Enqueue(1, []algorithm.Request{allReduce(mem, 16, c.s)})) })
		if got := kinds(calls); got != c.want || ticketOf(launches(calls)[0]) != 0 {
			t.Errorf("operation %d: %s; want %s", i, got, c.want)
		}
	}
	if idle, err := o.Idle(); !idle || err != nil {
		t.Errorf("idle %v, %v", idle, err)
	}
}

// The stream of the latest operation may be gone when the next comes.
func TestOrderOutlivesStreams(t *testing.T) {
	e := mockEngines(t, 2)[0]
	mem := memory(t, e, 1<<20)
	for range 3 {
		s, err := e.dev.NewStream()
		must(t, err)
		must(t, e.Enqueue(1, []algorithm.Request{allReduce(mem, 16, s)}))
		must(t, s.Close())
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	must(t, e.Drain(ctx))
}

// A stream that was destroyed with work on it may leave its handle to another, and the default streams of threads share one: those are other streams
// all the same.
func TestOrderKnowsStreamsByIdentity(t *testing.T) {
	e := mockEngines(t, 2)[0]
	mem := memory(t, e, 1<<20)
	put := func(s device.Stream) string {
		return kinds(noted(t, func() { must(t, e.Enqueue(1, []algorithm.Request{allReduce(mem, 16, s)})) }))
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
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
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

// The default stream is one by either name, and waits like any other.
func TestOrderOnTheDefaultStream(t *testing.T) {
	e := mockEngines(t, 2)[0]
	s, mem := newStream(t, e), memory(t, e, 1<<20)
	put := func(s device.Stream) string {
		return kinds(noted(t, func() { must(t, e.Enqueue(1, []algorithm.Request{allReduce(mem, 16, s)})) }))
	}
	named := func(raw uintptr) device.Stream {
		s, err := e.dev.WrapStream(raw)
		must(t, err)
		return s
	}
	for i, c := range []struct {
		s    device.Stream
		want string
	}{{named(0), "capture-query launch"}, {named(1), "capture-query launch"}, {s, "capture-query wait-value launch"}, {named(1), "capture-query wait-value launch"},
		{named(0), "capture-query launch"}} {
		if got := put(c.s); got != c.want {
			t.Errorf("operation %d: %s; want %s", i, got, c.want)
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	must(t, e.Drain(ctx))
}

// What another stream has after the operation is not waited for: that work may itself wait for what comes next.
func TestOrderWaitsForNothingElse(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	gate := mem.Add(1 << 19)
	must(t, e.Enqueue(1, []algorithm.Request{allReduce(mem, 16, a)}))
	must(t, a.WaitValue64(gate, 1))
	must(t, e.Enqueue(2, []algorithm.Request{allReduce(mem, 16, b)}))
	must(t, b.WriteValue64(gate, 1))
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	must(t, b.Synchronize(ctx))
	must(t, a.Synchronize(ctx))
}

// The kernel and its shape follow from type, operator, ranks, alignment and size.
func TestLaunches(t *testing.T) {
	for _, n := range []int{2, 3, 4} {
		engines := mockEngines(t, n)
		e := engines[1]
		s, mem := newStream(t, e), memory(t, e, 64<<20)
		must(t, e.table.force("all_reduce:one_shot_ll/64,all_gather:one_shot_ll/64,reduce_scatter:one_shot_ll128/128,reduce:two_shot_ll128/256,all_to_all:one_shot_ll/64", true))
		fast := map[int]string{2: "_n2", 4: "_n4"}[n]
		sum := ""
		ll := "ll128"
		if fast != "" {
			sum, ll = "_sum"+fast, "ll"
		}
		req := func(c algorithm.Collective, ty datatype.Type, op datatype.Op, count int64, shift int64) algorithm.Request {
			return algorithm.Request{Collective: c, Send: mem.Add(shift), Recv: mem.Add(32<<20 + shift), Count: count, Type: ty, Op: op, Root: n - 1, Stream: s}
		}
		for _, c := range []struct {
			r      algorithm.Request
			kernel string
		}{
			{req(algorithm.AllReduce, datatype.Float32, datatype.Sum, 256, 0), "all_reduce_one_shot_" + ll + "_float32" + sum},
			{req(algorithm.AllReduce, datatype.Float32, datatype.Max, 256, 0), "all_reduce_one_shot_ll128_float32"},
			{req(algorithm.AllReduce, datatype.Float32, datatype.Sum, 255, 0), "all_reduce_one_shot_ll128_float32"},
			{req(algorithm.AllReduce, datatype.Bfloat16, datatype.Avg, 256, 0), "all_reduce_one_shot_" + ll + "_bfloat16" + sum},
			{req(algorithm.AllReduce, datatype.Bfloat16, datatype.Avg, 256, 2), "all_reduce_one_shot_" + ll + "_bfloat16"},
			{req(algorithm.AllReduce, datatype.Int8, datatype.Sum, 256, 0), "all_reduce_one_shot_ll128_int8"},
			{req(algorithm.ReduceScatter, datatype.Float16, datatype.Sum, 256, 0), "reduce_scatter_ll128_float16" + sum},
			{req(algorithm.Reduce, datatype.Float32, datatype.Sum, 4096, 0), "reduce_ll128_float32" + sum},
			{req(algorithm.AllGather, datatype.Float64, datatype.Sum, 256, 0), "exchange_" + ll + fast},
			{req(algorithm.AllToAll, datatype.Int8, datatype.Sum, 255, 0), "exchange_ll128"},
			{req(algorithm.Broadcast, datatype.Int8, datatype.Sum, 1<<20, 0), "broadcast_ll128" + fast},
			{req(algorithm.Barrier, 0, 0, 0, 0), "exchange_" + ll + fast},
			{req(algorithm.AllGather, datatype.Int8, datatype.Sum, streamSliceFrom, 0), "point_to_point_stream"},
		} {
			calls := launches(noted(t, func() { must(t, e.Enqueue(1, []algorithm.Request{c.r})) }))
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
			}
			if a.rank != 1 || a.nranks != uint32(n) || a.window != area || a.abort == 0 || a.epochs != uint64(e.state.Ptr()) {
				t.Errorf("%s: %+v", c.kernel, a)
			}
			if c.r.Collective != algorithm.Barrier && c.r.Collective != algorithm.Broadcast && (a.send != uint64(c.r.Send) || a.recv != uint64(c.r.Recv)) {
				t.Errorf("%s: buffers %#x %#x", c.kernel, a.send, a.recv)
			}
			if calls[0].Block > 512 || calls[0].Block%32 != 0 || calls[0].Grid > uint32(e.maxBlocks) {
				t.Errorf("%s: %d × %d threads", c.kernel, calls[0].Grid, calls[0].Block)
			}
		}
	}
}

func names(calls []mockcuda.Call) []string {
	var s []string
	for _, c := range calls {
		s = append(s, c.Kernel)
	}
	return s
}

// sides collects what every rank's launches say of the messages between two ranks, in order: the k-th that s sends d must be the k-th that d
// receives from s, and be in launches of the same number.
func sides(t *testing.T, engines []*Engine, calls [][]mockcuda.Call) (sent, received map[[2]int][]string) {
	sent, received = map[[2]int][]string{}, map[[2]int][]string{}
	for r := range engines {
		round := map[string]int{}
		for _, c := range launches(calls[r]) {
			class := c.Kernel[strings.LastIndex(c.Kernel, "_")+1:]
			if class == "bytes" {
				class = "words"
			}
			lanes, messages := listsOf(t, c)
			blocks := 0
			for _, l := range lanes {
				blocks += int(l.channels)
				for _, m := range messages[l.first : l.first+l.count] {
					what := fmt.Sprintf("%s launch %d: %d bytes", class, round[class], m.bytes)
					if l.send == 1 {
						sent[[2]int{r, int(l.peer)}] = append(sent[[2]int{r, int(l.peer)}], what)
					} else if int(l.peer) != r {
						received[[2]int{int(l.peer), r}] = append(received[[2]int{int(l.peer), r}], what)
					}
				}
			}
			if class == "words" && blocks != int(c.Grid) {
				t.Errorf("rank %d: %d channels, %d blocks", r, blocks, c.Grid)
			}
			round[class]++
		}
	}
	return sent, received
}

// listsOf reads the lanes and messages of a launch.
func listsOf(t testing.TB, c mockcuda.Call) ([]lane, []message) {
	if strings.Contains(c.Kernel, "_few_") {
		a := argsOf[p2pFewArgs](t, c)
		return a.lane[:a.lanes], a.message[:]
	}
	if c.Kernel == "point_to_point_stream" {
		a := argsOf[streamArgs](t, c)
		return a.lane[:a.lanes], a.message[:]
	}
	a := argsOf[p2pArgs](t, c)
	return a.lane[:a.lanes], a.message[:]
}

// Any matching pattern of sends and receives is launched alike on both sides of every message.
func TestMessagesMatch(t *testing.T) {
	const n = 4
	engines := mockEngines(t, n)
	sizes := []int64{0, 8, 100, 0, streamFrom + 1<<20, 8, 4096, streamFrom, 1}
	calls := make([][]mockcuda.Call, n)
	for r, e := range engines {
		s, mem := newStream(t, e), memory(t, e, 4*streamFrom)
		var reqs []algorithm.Request
		for k := range 90 { // more than a launch holds
			for p := range n {
				size := sizes[(k+p+r)%len(sizes)]
				back := sizes[(k+r+p)%len(sizes)]
				if k > 20 {
					size, back = 8, 8
				}
				reqs = append(reqs,
					algorithm.Request{Collective: algorithm.Recv, Recv: mem.Add(2 * streamFrom), Count: back, Type: datatype.Int8, Peer: p, Stream: s},
					algorithm.Request{Collective: algorithm.Send, Send: mem, Count: size, Type: datatype.Int8, Peer: p, Stream: s})
			}
		}
		calls[r] = noted(t, func() { must(t, e.Enqueue(1, reqs)) })
	}
	sent, received := sides(t, engines, calls)
	if len(sent) != n*(n-1) {
		t.Fatalf("%d pairs", len(sent))
	}
	for pair, list := range sent {
		if !slices.Equal(list, received[pair]) {
			t.Errorf("rank %d → %d:\n%v\n%v", pair[0], pair[1], list, received[pair])
		}
	}
}

func TestSelfMessages(t *testing.T) {
	e := mockEngines(t, 2)[0]
	const large = streamFrom + 1<<20
	s, mem := newStream(t, e), memory(t, e, 2*large)
	message := func(c algorithm.Collective, at device.Ptr, count int64) algorithm.Request {
		return algorithm.Request{Collective: c, Send: at, Recv: at, Count: count, Type: datatype.Int8, Peer: 0, Stream: s}
	}
	send := func(at device.Ptr, n int64) algorithm.Request { return message(algorithm.Send, at, n) }
	recv := func(at device.Ptr, n int64) algorithm.Request { return message(algorithm.Recv, at, n) }
	calls := noted(t, func() {
		must(t, e.Enqueue(1, []algorithm.Request{recv(mem.Add(64), 8), recv(mem.Add(large), large), send(mem, 8), send(mem, large), send(mem, 5), recv(mem, 5)}))
	})
	if got := kinds(calls); got != "capture-query launch capture-query launch" {
		t.Fatalf("calls: %s", got)
	}
	for i, c := range []struct {
		kernel   string
		to       device.Ptr
		bytes    int64
		channels uint8
		grid     uint32
	}{{"point_to_point_few_words", mem.Add(64), 8, 1, 1}, {"point_to_point_stream", mem.Add(large), large, 32, 2*e.stream.streams + streamCopiers}} {
		got := launches(calls)[i]
		lanes, messages := listsOf(t, got)
		if got.Kernel != c.kernel || got.Grid != c.grid || len(lanes) != 1 || lanes[0] != (lane{peer: 0, count: 2, channels: c.channels}) ||
			messages[0] != message2(mem, c.bytes) || messages[1] != message2(c.to, c.bytes) {
			t.Errorf("%s of %d blocks: %+v %+v", got.Kernel, got.Grid, lanes, messages[:2])
		}
	}
	for name, c := range map[string]struct {
		reqs []algorithm.Request
		want error
	}{
		"no receive": {[]algorithm.Request{send(mem, 8)}, algorithm.ErrInvalidUsage},
		"no send":    {[]algorithm.Request{recv(mem, 8)}, algorithm.ErrInvalidUsage},
		"sizes":      {[]algorithm.Request{recv(mem, 8), send(mem, 9)}, algorithm.ErrMismatch},
	} {
		var err error
		if calls := noted(t, func() { err = e.Enqueue(1, c.reqs) }); len(calls) > 0 || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %s", name, err, kinds(calls))
		}
	}
}

func message2(p device.Ptr, n int64) message { return message{uint64(p), uint64(n)} }

// The hot paths allocate nothing.
func TestEnqueueAllocatesNothing(t *testing.T) {
	engines := mockEngines(t, 4)
	for name, reqs := range hotPaths(t, engines[1]) {
		e := engines[1]
		must(t, e.Enqueue(1, reqs))
		if n := testing.AllocsPerRun(100, func() { must(t, e.Enqueue(1, reqs)) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// hotPaths are requests of rank 1 of four.
func hotPaths(t testing.TB, e *Engine) map[string][]algorithm.Request {
	s, mem := newStream(t, e), memory(t, e, 64<<20)
	out := mem.Add(32 << 20)
	counts, displs := []int64{64, 64, 64, 64}, []int64{0, 64, 128, 192}
	request := func(c algorithm.Collective, count int64) algorithm.Request {
		return algorithm.Request{Collective: c, Send: mem, Recv: out, Count: count, Type: datatype.Float32, Peer: 0, Root: 2, Stream: s}
	}
	v := request(algorithm.AllToAllV, 0)
	v.SendCounts, v.RecvCounts, v.SendDispls, v.RecvDispls = counts, counts, displs, displs
	d := request(algorithm.AllToAllVDevice, 0)
	d.DeviceCounts = algorithm.DeviceCounts{SendCounts: mem, SendDispls: mem.Add(32), RecvCounts: mem.Add(64), RecvDispls: mem.Add(96)}
	ring := []algorithm.Request{request(algorithm.Send, 256), request(algorithm.Recv, 256)}
	ring[1].Peer = 2
	return map[string][]algorithm.Request{
		"all_reduce":     {request(algorithm.AllReduce, 256)},
		"all_reduce 1M":  {request(algorithm.AllReduce, 1<<18)},
		"reduce":         {request(algorithm.Reduce, 1<<18)},
		"reduce_scatter": {request(algorithm.ReduceScatter, 256)},
		"all_gather":     {request(algorithm.AllGather, 256)},
		"all_gather 8M":  {request(algorithm.AllGather, 1<<19)},
		"broadcast":      {request(algorithm.Broadcast, 256)},
		"broadcast 1M":   {request(algorithm.Broadcast, 1<<18)},
		"gather":         {request(algorithm.Gather, 256)},
		"all_to_all_v":   {v},
		"device_counts":  {d},
		"send_recv":      ring,
		"send_recv 4M":   {request(algorithm.Send, 1<<20)},
		"barrier":        {request(algorithm.Barrier, 0)},
	}
}

// Small operations are one launch, asked for by one call of the driver's door: the capture query in front of it is the door's own.
func TestSmallOperationsAreOneLaunch(t *testing.T) {
	for r, e := range mockEngines(t, 4) {
		for name, reqs := range hotPaths(t, e) {
			if strings.Contains(name, " ") {
				continue
			}
			for i := range reqs {
				if reqs[i].Collective == algorithm.Send || reqs[i].Collective == algorithm.Recv {
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

// BenchmarkEnqueue is the CPU time of an eager operation over a driver that does next to nothing.
func BenchmarkEnqueue(b *testing.B) {
	e := mockEngines(b, 4)[1]
	for name, reqs := range hotPaths(b, e) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() { // must would cost as much again: Helper looks at the stack
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
			if err := s.LaunchRaw(e.kernels.move[exchanging][ll128][1], &cfg, params(e.args)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// What a kernel reports becomes an error that names the rank waited for and the latest operation; it also counts as work cut short.
func TestReport(t *testing.T) {
	engines := mockEngines(t, 3)
	e := engines[0]
	s, mem := newStream(t, e), memory(t, e, 1<<20)
	must(t, e.Enqueue(7, []algorithm.Request{allReduce(mem, 16, s)}))
	if e.Unfinished() || e.Err() != nil {
		t.Fatalf("unfinished %v, %v", e.Unfinished(), e.Err())
	}
	w := e.abort.word
	w.peer.Store(2)
	w.reported.Store(statusTimeout)
	var ae *algorithm.Error
	if err := e.Err(); !errors.As(err, &ae) || !errors.Is(err, algorithm.ErrTimeout) || ae.Peer != 2 || ae.Seq != 7 || ae.Op != "all_reduce" || ae.Rank != 0 {
		t.Errorf("%v", err)
	}
	if w.abort.Load() == 0 {
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
	must(t, e.Enqueue(1, []algorithm.Request{allReduce(mem, 16, s)}))
	if !e.Unfinished() {
		t.Error("the work has not begun")
	}
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer stop()
	if err := e.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain: %v", err)
	}
	must(t, e.dev.CopyIn(mem.Add(1<<19), []byte{1}))
	ctx, stop2 := context.WithTimeout(context.Background(), 10*time.Second)
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
		calls := noted(t, func() { err = e.Enqueue(3, []algorithm.Request{allReduce(mem, 16, s)}) })
		var ae *algorithm.Error
		if !errors.As(err, &ae) || ae.Seq != 3 || len(calls) > 0 {
			t.Errorf("%s: %v, %s", name, err, kinds(calls))
		}
	}
}

// Sends and receives of one call on several streams: all streams wait for the batch, and the batch for all streams.
func TestMessagesOnSeveralStreams(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	reqs := []algorithm.Request{
		{Collective: algorithm.Send, Send: mem, Count: 8, Type: datatype.Int8, Peer: 1, Stream: a},
		{Collective: algorithm.Recv, Recv: mem.Add(64), Count: 8, Type: datatype.Int8, Peer: 1, Stream: b}}
	calls := noted(t, func() { must(t, e.Enqueue(1, reqs)) })
	if got := kinds(calls); got != "capture-query capture-query record wait-event capture-query launch record wait-event" {
		t.Fatalf("calls: %s", got)
	}
	for i, s := range []*cuda.Stream{a, b, b, a, a, a, a, b} {
		if calls[i].Stream != s.Raw() {
			t.Errorf("call %d, %v, is on the wrong stream", i, calls[i].Kind)
		}
	}
	// One of them captured: refused, and the capture goes on.
	must(t, b.BeginCapture(cuda.CaptureRelaxed))
	var err error
	calls = noted(t, func() { err = e.Enqueue(1, reqs) })
	if !errors.Is(err, algorithm.ErrInvalidUsage) || len(launches(calls)) > 0 {
		t.Errorf("%v, %s", err, kinds(calls))
	}
	must(t, e.Enqueue(1, []algorithm.Request{allReduce(mem, 16, b)}))
	g, err := b.EndCapture()
	must(t, err)
	n, err := g.Nodes()
	must(t, err)
	if n != 1 {
		t.Errorf("%d nodes", n)
	}
	must(t, g.Close())
}

// Streams would overwrite what is still to be sent.
func TestAllToAllInPlace(t *testing.T) {
	e := mockEngines(t, 2)[0]
	s, mem := newStream(t, e), memory(t, e, 2*streamSliceFrom)
	for _, count := range []int64{8, streamFrom, streamSliceFrom} {
		calls := launches(noted(t, func() {
			if err := e.Enqueue(1, []algorithm.Request{{Collective: algorithm.AllToAll, Send: mem, Recv: mem, Count: count, Type: datatype.Int8, Stream: s}}); err != nil {
				t.Errorf("%d bytes: %v", count, err)
			}
		}))
		if len(calls) != 1 || !strings.HasPrefix(calls[0].Kernel, "exchange_") {
			t.Errorf("%d bytes: %v", count, calls)
		}
	}
}
