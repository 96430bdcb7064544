package nvlink

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/mockcuda"
)

// sides collects the messages between two ranks from every rank's launches, in order: the k-th that s sends to d must
// be the k-th that d receives from s, in a launch of the same number.
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
				if most := int64(engines[r].p2pChannels); class == "words" && int(l.peer) != r &&
					int64(l.channels) != min(most, engines[r].channels(longest(messages[l.first:l.first+l.count]))) {
					t.Errorf("rank %d has %d blocks for a lane of %v", r, l.channels, messages[l.first:l.first+l.count])
				}
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

// longest is the size of the longest of the messages.
func longest(messages []message) (bytes int64) {
	for _, m := range messages {
		bytes = max(bytes, int64(m.bytes))
	}
	return bytes
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

// For any matching pattern of sends and receives, both sides of every message choose the same kernel and channels.
func TestMessagesMatch(t *testing.T) {
	for _, n := range []int{4, maxRanks} { // these have fewer channels than there are
		t.Run(fmt.Sprint(n), func(t *testing.T) { messagesMatch(t, n) })
	}
}

func messagesMatch(t *testing.T, n int) {
	engines := mockEngines(t, n)
	sizes := []int64{0, 8, 100, 0, streamFrom + 1<<20, 8, 4096, streamFrom, 1}
	calls := make([][]mockcuda.Call, n)
	for r, e := range engines {
		s, mem := newStream(t, e), memory(t, e, 4*streamFrom)
		var reqs []collective.Request
		for k := range 90 { // more than a launch holds
			for p := range n {
				size := sizes[(k+p+r)%len(sizes)]
				back := sizes[(k+r+p)%len(sizes)]
				if k > 20 {
					size, back = 8, 8
				}
				reqs = append(reqs,
					collective.Request{Collective: collective.Recv, Recv: mem.Add(2 * streamFrom), Count: back, Type: datatype.Int8,
						Peer: p, Stream: s},
					collective.Request{Collective: collective.Send, Send: mem, Count: size, Type: datatype.Int8, Peer: p, Stream: s})
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
	message := func(c collective.Collective, at device.Ptr, count int64) collective.Request {
		return collective.Request{Collective: c, Send: at, Recv: at, Count: count, Type: datatype.Int8, Peer: 0, Stream: s}
	}
	send := func(at device.Ptr, n int64) collective.Request { return message(collective.Send, at, n) }
	recv := func(at device.Ptr, n int64) collective.Request { return message(collective.Recv, at, n) }
	calls := noted(t, func() {
		must(t, e.Enqueue(1, []collective.Request{recv(mem.Add(64), 8), recv(mem.Add(large), large), send(mem, 8),
			send(mem, large), send(mem, 5), recv(mem, 5)}))
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
	}{{"point_to_point_few_words", mem.Add(64), 8, 1, 1},
		{"point_to_point_stream", mem.Add(large), large, 32, 2 * streamDefault}} {
		got := launches(calls)[i]
		lanes, messages := listsOf(t, got)
		if got.Kernel != c.kernel || got.Grid != c.grid || len(lanes) != 1 ||
			lanes[0] != (lane{peer: 0, count: 2, channels: c.channels}) ||
			messages[0] != message2(mem, c.bytes) || messages[1] != message2(c.to, c.bytes) {
			t.Errorf("%s of %d blocks: %+v %+v", got.Kernel, got.Grid, lanes, messages[:2])
		}
	}
	for name, c := range map[string]struct {
		reqs []collective.Request
		want error
	}{
		"no receive": {[]collective.Request{send(mem, 8)}, collective.ErrInvalidUsage},
		"no send":    {[]collective.Request{recv(mem, 8)}, collective.ErrInvalidUsage},
		"sizes":      {[]collective.Request{recv(mem, 8), send(mem, 9)}, collective.ErrMismatch},
	} {
		var err error
		if calls := noted(t, func() { err = e.Enqueue(1, c.reqs) }); len(calls) > 0 || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %s", name, err, kinds(calls))
		}
	}
}

func message2(p device.Ptr, n int64) message { return message{uint64(p), uint64(n)} }

// streamOf is the one launch of a stream among the calls of do, and its parameters.
func streamOf(t *testing.T, do func()) (mockcuda.Call, *streamArgs) {
	t.Helper()
	for _, c := range launches(noted(t, do)) {
		if c.Kernel == "point_to_point_stream" {
			return c, argsOf[streamArgs](t, c)
		}
	}
	t.Fatal("no stream")
	return mockcuda.Call{}, nil
}

// The receiver tells where the sender has mapped each large message, of any address and size, and that it has not where
// it has not. Both sides take the same number of blocks, whatever is mapped.
func TestMappedMessages(t *testing.T) {
	engines := mockEngines(t, 3)
	e, peer := engines[0], engines[1]
	const size = streamFrom + 4099
	mem, far := memory(t, e, 4*size), device.Ptr(64) // far is in no allocation
	s, group := newStream(t, e), []collective.Request{}
	wants := []struct {
		at     device.Ptr
		bytes  int64
		mapped bool
	}{{mem, streamFrom, true}, {far, size, false}, {mem.Add(streamFrom + 3), size, true}, {mem.Add(3 * size), 5, false}}
	for _, w := range wants { // the last is no stream
		group = append(group,
			collective.Request{Collective: collective.Recv, Recv: w.at, Count: w.bytes, Type: datatype.Int8, Peer: 1,
				Stream: s},
			collective.Request{Collective: collective.Send, Send: far, Count: w.bytes, Type: datatype.Int8, Peer: 2,
				Stream: s})
	}
	var c mockcuda.Call
	var a *streamArgs
	run := func() { must(t, e.Enqueue(1, group)) }
	eventually(t, "all ranks map the buffer", func() bool {
		c, a = streamOf(t, run)
		return a.there[0] != 0
	})
	for i, w := range wants[:3] { // the first lane
		want := uint64(0)
		if w.mapped {
			want = uint64(w.at) // one process: the mappings lie at the owner's addresses
		}
		if a.lane[0].send != 0 || a.lane[0].count != 3 || a.there[i] != want {
			t.Errorf("message %d of lane %+v is told to be at %#x, want %#x", i, a.lane[0], a.there[i], want)
		}
	}
	blocks := func(c mockcuda.Call, a *streamArgs, width uint32) {
		t.Helper()
		if c.Grid != 2*width || a.width != width || c.Shared != streamStages*streamStage || a.stages != streamStages {
			t.Errorf("%d blocks with %d bytes, %d channels, %d stages; want %d channels", c.Grid, c.Shared, a.width, a.stages,
				width)
		}
	}
	blocks(c, a, streamDefault)
	send := collective.Request{Collective: collective.Send, Send: far, Count: size, Type: datatype.Int8, Peer: 0,
		Stream: newStream(t, peer)}
	c, a = streamOf(t, func() { must(t, peer.Enqueue(1, []collective.Request{send})) })
	blocks(c, a, streamDefault)

	// A captured launch waits for the peers: its graph keeps the address.
	fresh := memory(t, e, size)
	recv := collective.Request{Collective: collective.Recv, Recv: fresh.Add(5), Count: streamFrom, Type: datatype.Int8,
		Peer: 1, Stream: s}
	must(t, s.BeginCapture(cuda.CaptureRelaxed))
	_, a = streamOf(t, func() { must(t, e.Enqueue(1, []collective.Request{recv})) })
	if a.there[0] != uint64(fresh.Add(5)) {
		t.Errorf("captured, a message is told to be at %#x, want %#x", a.there[0], uint64(fresh.Add(5)))
	}
	g, err := s.EndCapture()
	must(t, errors.Join(err, g.Close()))

	// Where streams are chosen, short messages are streams, too: of fewer pieces than channels.
	recv.Count = 100
	must(t, e.Force("all_to_all_v:stream/16"))
	c, a = streamOf(t, func() { must(t, e.Enqueue(1, []collective.Request{recv})) })
	blocks(c, a, 16)
	if a.there[0] != uint64(fresh.Add(5)) {
		t.Errorf("a short message is told to be at %#x", a.there[0])
	}
	must(t, e.Force("all_to_all_v:stream/64")) // one block on an SM
	c, a = streamOf(t, func() { must(t, e.Enqueue(1, []collective.Request{recv})) })
	blocks(c, a, uint32(e.streams))
	counts := []int64{0, 8, 0}
	v := collective.Request{Collective: collective.AllToAllV, Send: mem, Recv: fresh, Type: datatype.Int8, Stream: s,
		SendCounts: counts, RecvCounts: counts, SendDispls: counts, RecvDispls: counts, Algorithm: "stream/4"}
	c, a = streamOf(t, func() { must(t, e.Enqueue(1, []collective.Request{v})) })
	blocks(c, a, 4)
	c, a = streamOf(t, func() { must(t, e.Enqueue(1, []collective.Request{recv})) })
	blocks(c, a, uint32(e.streams))
	if v.Algorithm = "stream/65"; !errors.Is(e.Enqueue(1, []collective.Request{v}), collective.ErrInvalidArgument) {
		t.Error("a stream of 65 channels is accepted")
	}
}

// Where no buffers are mapped, many blocks pass pieces through rings, without bulk copies.
func TestMessagesThroughRings(t *testing.T) {
	t.Setenv("GOCCL_REGISTER", "off")
	e := mockEngines(t, 2)[0]
	recv := collective.Request{Collective: collective.Recv, Recv: memory(t, e, streamFrom), Count: streamFrom,
		Type: datatype.Int8, Peer: 1, Stream: newStream(t, e)}
	for range 3 {
		c, a := streamOf(t, func() { must(t, e.Enqueue(1, []collective.Request{recv})) })
		if c.Grid != 2*streamChannels || c.Shared != 0 || a.stages != 0 || a.there[0] != 0 {
			t.Errorf("%d blocks with %d bytes, %d stages, at %#x", c.Grid, c.Shared, a.stages, a.there[0])
		}
	}
}

// Sends and receives of one call on several streams: all streams wait for the batch, and the batch for all streams.
func TestMessagesOnSeveralStreams(t *testing.T) {
	e := mockEngines(t, 2)[0]
	a, b, mem := newStream(t, e), newStream(t, e), memory(t, e, 1<<20)
	reqs := []collective.Request{
		{Collective: collective.Send, Send: mem, Count: 8, Type: datatype.Int8, Peer: 1, Stream: a},
		{Collective: collective.Recv, Recv: mem.Add(64), Count: 8, Type: datatype.Int8, Peer: 1, Stream: b}}
	calls := noted(t, func() { must(t, e.Enqueue(1, reqs)) })
	if got := kinds(calls); got != "capture-query capture-query record wait-event capture-query launch record wait-event" {
		t.Fatalf("calls: %s", got)
	}
	for i, s := range []*cuda.Stream{a, b, b, a, a, a, a, b} {
		if calls[i].Stream != s.Raw() {
			t.Errorf("call %d, %v, is on the wrong stream", i, calls[i].Kind)
		}
	}
	// If one of them is captured, the group is refused, and the capture continues.
	must(t, b.BeginCapture(cuda.CaptureRelaxed))
	var err error
	calls = noted(t, func() { err = e.Enqueue(1, reqs) })
	if !errors.Is(err, collective.ErrInvalidUsage) || len(launches(calls)) > 0 {
		t.Errorf("%v, %s", err, kinds(calls))
	}
	must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 16, b)}))
	g, err := b.EndCapture()
	must(t, err)
	n, err := g.Nodes()
	must(t, err)
	if n != 1+2 { // plus two for the order of the launches
		t.Errorf("%d nodes", n)
	}
	must(t, g.Close())
}

// Streams would overwrite data that is still to be sent.
func TestAllToAllInPlace(t *testing.T) {
	e := mockEngines(t, 2)[0]
	s, mem := newStream(t, e), memory(t, e, 2*streamSliceFrom)
	for _, count := range []int64{8, streamFrom, streamSliceFrom} {
		calls := launches(noted(t, func() {
			if err := e.Enqueue(1, []collective.Request{
				{Collective: collective.AllToAll, Send: mem, Recv: mem, Count: count, Type: datatype.Int8,
					Stream: s}}); err != nil {
				t.Errorf("%d bytes: %v", count, err)
			}
		}))
		if len(calls) != 1 || !strings.HasPrefix(calls[0].Kernel, "exchange_") {
			t.Errorf("%d bytes: %v", count, calls)
		}
	}
}
