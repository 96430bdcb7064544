package nvlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/test/mockcuda"
	"github.com/goccl/goccl/test/testutil"
)

const tokenRoom = 5 << 20 // of a buffer of mover

// mover is n engines that take no SM, with a window and other memory each.
type mover struct {
	t           *testing.T
	engines     []*Engine
	streams     [][2]*cuda.Stream
	window, mem []device.Ptr // two buffers each
	seq         uint64
}

func newMover(t *testing.T, n int, limit time.Duration) *mover {
	t.Helper()
	t.Setenv("NCCL_CTA_POLICY", "ZERO")
	m := &mover{t: t, engines: limitedEngines(t, n, limit)}
	for _, e := range m.engines {
		e.stage = 4096 // so that small messages have several chunks
		m.streams = append(m.streams, [2]*cuda.Stream{newStream(t, e), newStream(t, e)})
		m.window, m.mem = append(m.window, memory(t, e, 2*tokenRoom)), append(m.mem, memory(t, e, 2*tokenRoom))
	}
	for r, e := range m.engines {
		registerWindow(t, e, m.window[r], 2*tokenRoom)
	}
	return m
}

// moved is an operation of all ranks.
type moved struct {
	c        collective.Collective
	count    int64 // bytes of a slice
	root     int
	window   bool
	inPlace  bool
	captured bool
	shift    int64 // of all buffers
}

// fill returns what a rank has in a buffer at first.
func (m *mover) fill(rank int, size int64) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i*7+i/256*13) ^ byte(rank*31) ^ byte(m.seq)
	}
	return b
}

// counts is how many bytes rank from sends rank to in an all-to-all-v: some nothing.
func (x *moved) counts(from, to int) int64 { return x.count * int64((from+2*to)%3) / 2 }

// request returns what a rank enqueues, its buffers, and the content that the receive buffer shall have.
func (m *mover) request(x *moved, r int) (req collective.Request, in, want []byte) {
	n := len(m.engines)
	all := x.count * int64(n)
	send, recv := m.mem[r].Add(x.shift), m.mem[r].Add(tokenRoom+x.shift)
	if x.window {
		recv = m.window[r].Add(tokenRoom + x.shift)
	}
	req = collective.Request{Collective: x.c, Count: x.count, Root: x.root, Type: datatype.Int8}
	input := func(p int) []byte { return m.fill(p, all) }
	in, want = input(r), bytes.Repeat([]byte{0xa5}, int(all))
	slot := func(p int) (int64, int64) { return int64(p) * x.count, int64(p+1) * x.count }
	switch x.c {
	case collective.AllGather, collective.Gather:
		in = in[:x.count]
		for p := range n {
			if from, to := slot(p); x.c == collective.AllGather || r == x.root {
				copy(want[from:to], input(p)[:x.count])
			}
		}
		if x.inPlace {
			send = recv.Add(int64(r) * x.count)
		}
	case collective.AllToAll:
		for p := range n {
			from, to := slot(p)
			mine, end := slot(r)
			copy(want[from:to], input(p)[mine:end])
		}
		if x.inPlace {
			send = recv
		}
	case collective.Broadcast:
		in, want = in[:x.count], append(input(x.root)[:x.count:x.count], want[x.count:]...)
		if x.inPlace {
			send = recv
		}
	case collective.Scatter:
		from, to := slot(r)
		want = append(input(x.root)[from:to:to], want[x.count:]...)
	case collective.AllToAllV:
		at, out := int64(0), int64(0)
		for p := range n {
			req.SendCounts, req.SendDispls = append(req.SendCounts, x.counts(r, p)), append(req.SendDispls, at)
			req.RecvCounts, req.RecvDispls = append(req.RecvCounts, x.counts(p, r)), append(req.RecvDispls, out)
			from := int64(0)
			for q := range r {
				from += x.counts(p, q)
			}
			copy(want[out:], input(p)[from:][:x.counts(p, r)])
			at, out = at+x.counts(r, p), out+x.counts(p, r)
		}
	}
	req.Send, req.Recv = send, recv
	return req, in, want
}

// run runs the operations on all ranks and checks the data, and that nothing was launched.
func (m *mover) run(xs []moved, random *rand.Rand) {
	m.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for _, x := range xs {
		m.seq++
		var wants [][]byte
		var recvs []device.Ptr
		var graphs []*cuda.Exec
		calls := noted(m.t, func() {
			for r, e := range m.engines {
				req, in, want := m.request(&x, r)
				s := m.streams[r][random.IntN(2)]
				req.Stream = s
				must(m.t, e.dev.CopyIn(req.Recv, bytes.Repeat([]byte{0xa5}, len(want))))
				must(m.t, e.dev.CopyIn(req.Send, in))
				wants, recvs = append(wants, want), append(recvs, req.Recv)
				if !x.captured {
					must(m.t, e.Enqueue(m.seq, []collective.Request{req}))
					continue
				}
				must(m.t, s.BeginCapture(cuda.CaptureRelaxed))
				must(m.t, e.Enqueue(m.seq, []collective.Request{req}))
				g, err := s.EndCapture()
				must(m.t, err)
				exec, err := g.Instantiate()
				must(m.t, errors.Join(err, g.Close()))
				graphs = append(graphs, exec)
				must(m.t, exec.Launch(s))
			}
		})
		if l := launches(calls); len(l) > 0 {
			m.t.Fatalf("%+v: kernels %v", x, names(l))
		}
		for r, e := range m.engines {
			for _, s := range m.streams[r] {
				must(m.t, s.Synchronize(ctx))
			}
			must(m.t, e.Drain(ctx))
		}
		for r, e := range m.engines {
			got := make([]byte, len(wants[r]))
			must(m.t, e.dev.CopyOut(got, recvs[r]))
			if x.c == collective.Gather && x.inPlace && r != x.root {
				continue // its receive buffer holds its input
			}
			if !bytes.Equal(got, wants[r]) {
				m.t.Fatalf("%+v: rank %d has wrong data", x, r)
			}
			if e.Unfinished() || e.Err() != nil {
				m.t.Fatalf("%+v: rank %d: unfinished %v, %v", x, r, e.Unfinished(), e.Err())
			}
		}
		for _, g := range graphs {
			must(m.t, g.Close())
		}
	}
}

// With CTAPolicyZero everything that only moves bytes runs without a kernel, in random orders of the streams: eager and
// captured, from a byte to several chunks, at any address, in place and not, in windows and not.
func TestTokens(t *testing.T) {
	for _, n := range []int{2, 3, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			m := newMover(t, n, time.Minute)
			random := rand.New(rand.NewPCG(uint64(n), 32))
			var xs []moved
			for _, c := range []collective.Collective{collective.AllGather, collective.AllToAll, collective.AllToAllV,
				collective.Broadcast, collective.Gather, collective.Scatter} {
				for _, count := range []int64{1, 515, 4096, 3*4096 + 24} {
					for flags := range 8 {
						xs = append(xs, moved{c, count, random.IntN(n), flags&1 != 0, flags&2 != 0, flags&4 != 0,
							[]int64{0, 8, 3}[random.IntN(3)]})
					}
				}
			}
			random.Shuffle(len(xs), func(i, k int) { xs[i], xs[k] = xs[k], xs[i] })
			defer notes.Seed(0)
			for _, seed := range []uint64{uint64(n), 0} {
				notes.Seed(seed)
				m.run(xs, random)
			}
			m.run([]moved{{c: collective.Broadcast, count: copySplitFrom + 8, window: true}}, random)
		})
	}
}

// The calls of an operation: a rank gives free before it waits for free, copies only then, gives full only behind its
// copies, and clears every token that it takes.
func TestTokensInOrder(t *testing.T) {
	m := newMover(t, 2, time.Minute)
	e := m.engines[0]
	setOrder(t, e, e.launcher.State.Ptr().Add(stateTicket), cuda.SeparateGraphs)
	req, _, _ := m.request(&moved{c: collective.AllGather, count: 64, window: true}, 0)
	s := m.streams[0][0]
	req.Stream = s
	calls := noted(t, func() { must(t, e.Enqueue(1, []collective.Request{req})) })
	const meeting = "write write wait-value write write"
	const copied = "capture-query of the side record copy wait-event of the side copy of the side " +
		"record of the side wait-event"
	if got, want := strings.Join(kindsBeside(calls, s), " "), "capture-query "+meeting+" "+copied+" "+meeting+
		" record"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	k, peer := e.tokens, m.engines[1].tokens
	var at []device.Ptr
	for _, c := range calls {
		if kind := kinds([]mockcuda.Call{c}); kind == "write" || kind == "wait-value" {
			at = append(at, device.Ptr(c.A))
		}
	}
	want := []device.Ptr{k.peers[free][1], k.mark, k.own[free][1], k.own[free][1], k.mark,
		k.peers[full][1], k.mark, k.own[full][1], k.own[full][1], k.mark}
	if !slices.Equal(at, want) {
		t.Errorf("at %#x; want %#x", at, want)
	}
	if offset := int64(k.own[free][1] - e.arena.Ptr[0]); peer.own[free][0]-m.engines[1].arena.Ptr[1] !=
		device.Ptr(offset)-8 {
		t.Error("tokens of different givers do not follow each other")
	}
	abandon(t, e)
}

// A call allocates nothing in Go.
func TestTokensAllocateNothing(t *testing.T) {
	m := newMover(t, 2, time.Minute)
	for _, x := range []moved{{c: collective.AllToAll, count: 64, window: true}, {c: collective.AllToAll, count: 64},
		{c: collective.Broadcast, count: 64, window: true}} {
		req, _, _ := m.request(&x, 0)
		req.Stream = m.streams[0][0]
		reqs := []collective.Request{req}
		if n := testutil.Allocations(func() { must(t, m.engines[0].Enqueue(1, reqs)) }); n != 0 {
			t.Errorf("%+v: %v allocations", x, n)
		}
	}
	abandon(t, m.engines[0])
}

// An abort ends the wait of a stream for a rank that does not come, and each later one, also of graphs. Then work
// counts as cut short. After a Close without waits it does not.
func TestTokensAborted(t *testing.T) {
	m := newMover(t, 3, 0)
	m.run([]moved{{c: collective.AllGather, count: 64}}, rand.New(rand.NewPCG(1, 1)))
	e, x := m.engines[0], moved{c: collective.AllToAll, count: 3 * 4096}
	req, _, _ := m.request(&x, 0)
	s := m.streams[0][0]
	req.Stream = s
	must(t, s.BeginCapture(cuda.CaptureRelaxed))
	must(t, e.Enqueue(1, []collective.Request{req}))
	g, err := s.EndCapture()
	must(t, err)
	exec, err := g.Instantiate()
	must(t, errors.Join(err, g.Close()))
	defer func() { must(t, exec.Close()) }()
	for range 3 {
		must(t, e.Enqueue(1, []collective.Request{req}))
	}
	if idle, err := s.Query(); idle || err != nil {
		t.Fatalf("a stream that waits: done %v, %v", idle, err)
	}
	e.Abort(fault.ErrAborted)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	must(t, s.Synchronize(ctx))
	must(t, exec.Launch(s))
	must(t, s.Synchronize(ctx))
	if !e.Unfinished() || e.Drain(ctx) == nil {
		t.Error("an operation that was cut short counts as finished")
	}
	other := m.engines[1]
	other.Abort(fault.ErrAborted)
	if other.Unfinished() {
		t.Error("an abort without work counts as unfinished work")
	}
	req, _, _ = m.request(&x, 1)
	req.Stream = m.streams[1][0]
	must(t, other.Enqueue(1, []collective.Request{req}))
	must(t, m.streams[1][0].Synchronize(ctx))
	must(t, other.Close())
	if !other.Unfinished() {
		t.Error("work behind an abort counts as finished")
	}
	must(t, m.engines[2].Close())
	if m.engines[2].Unfinished() {
		t.Error("Close counts as unfinished work")
	}
}

// A wait that is longer than the limit ends the communicator with an error that names the missing rank. Waits that come
// one after the other are not taken for one.
func TestTokensTooLate(t *testing.T) {
	m := newMover(t, 3, 300*time.Millisecond)
	for r := range 2 { // rank 2 does not come
		req, _, _ := m.request(&moved{c: collective.AllGather, count: 64}, r)
		req.Stream = m.streams[r][0]
		must(t, m.engines[r].Enqueue(1, []collective.Request{req}))
	}
	for r, e := range m.engines[:2] {
		eventually(t, "the watch finds the wait", func() bool { return e.Err() != nil })
		if err := e.Err(); !errors.Is(err, collective.ErrTimeout) || fault.PeerOf(err) != 2 {
			t.Errorf("rank %d: %v", r, err)
		}
		eventually(t, "the wait has ended", func() bool {
			idle, err := m.streams[r][0].Query()
			return idle && err == nil
		})
	}
	k, now := m.engines[2].tokens, time.Now()
	for i := range 10 {
		k.word.Store(markWaits | 1<<2) // a token that nobody gives
		if p := k.late(now.Add(time.Duration(i)*time.Hour), time.Minute); p >= 0 {
			t.Fatalf("the start of wait %d is taken for its end", i)
		}
	}
	if p := k.late(now.Add(24*time.Hour), time.Minute); p != 2 {
		t.Errorf("rank %d is missing, want 2", p)
	}
	k.word.Store(0)
}

// A new arena after a suspension has new tokens.
func TestTokensSuspended(t *testing.T) {
	m := newMover(t, 2, time.Minute)
	random := rand.New(rand.NewPCG(1, 1))
	xs := []moved{{c: collective.AllGather, count: 9000}, {c: collective.AllToAll, count: 64, window: true}}
	m.run(xs, random)
	errs := make(chan error, 2)
	for _, e := range m.engines {
		must(t, e.Suspend(context.Background()))
	}
	for _, e := range m.engines {
		go func() { errs <- e.Resume(context.Background()) }()
	}
	must(t, errors.Join(<-errs, <-errs))
	m.run(xs, random)
}
