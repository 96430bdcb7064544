package nvlink

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/mockcuda"
)

// Run random work of several communicators on many streams from several threads, eager and captured, with graphs that
// are launched repeatedly, also during other captures. The kernels of each communicator must run one after the other,
// in the order in which the host enqueued them or launched their graphs. All randomness comes from the seed.
func TestOrderRandom(t *testing.T) {
	seeds := 200
	if os.Getenv("GOCCL_FULL") != "" {
		seeds = 3000
	}
	const window = 8 << 20
	engines, mem := windowed(t, 2, window)
	windows := map[*Engine]device.Ptr{engines[0]: mem[0], engines[1]: mem[1]}
	engines = append(engines, mockEngines(t, 3)...)
	for seed := 1; seed <= seeds; seed++ {
		t.Run(fmt.Sprintf("seed_%d", seed), func(t *testing.T) { randomWork(t, engines, windows, uint64(seed), 150) })
	}
}

func randomWork(t *testing.T, engines []*Engine, windows map[*Engine]device.Ptr, seed uint64, steps int) {
	w := &script{t: t, engines: engines, windows: windows, r: rand.New(rand.NewPCG(seed, 1))}
	notes.Weaken(mockcuda.Weakness(w.r.IntN(4)) * mockcuda.Weakness(w.r.IntN(3)))
	defer notes.Weaken(0)
	w.open()
	defer w.close()
	calls := noted(t, func() {
		notes.Seed(seed)
		defer notes.Seed(0) // pending work runs to its end
		for range steps {
			w.step()
		}
		for len(w.captures) > 0 {
			w.end(0)
		}
		w.finish()
	})
	if err := mockcuda.InOrder(calls, mockcuda.Communicator); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	for i, e := range engines {
		if idle, err := e.launcher.Order.Idle(); !idle || err != nil {
			t.Errorf("seed %d, communicator %d: idle %v, %v", seed, i, idle, err)
		}
	}
}

// script is a random program under construction.
type script struct {
	t        *testing.T
	engines  []*Engine
	windows  map[*Engine]device.Ptr // of those with copy engines
	r        *rand.Rand
	threads  []chan func() // two threads
	streams  [][]*cuda.Stream
	mem      []device.Ptr
	own      []device.Allocation
	orders   []*cuda.Order // the engines' own
	captures []*recording
	graphs   []*replay
}

// recording is an active capture; its first stream is where it began.
type recording struct{ streams []*cuda.Stream }

// replay is a graph and the GPU whose streams it is launched on.
type replay struct {
	x   *cuda.Exec
	gpu int
}

func (w *script) gpu(e *Engine) int { return e.dev.ID().Index }

func (w *script) open() {
	w.streams, w.mem = make([][]*cuda.Stream, 4), make([]device.Ptr, 4)
	for _, e := range w.engines {
		g := w.gpu(e)
		if w.streams[g] != nil {
			continue
		}
		for range 4 {
			w.streams[g] = append(w.streams[g], w.newStream(e.dev))
		}
		m, err := e.dev.Alloc(8 << 20)
		must(w.t, err)
		w.own, w.mem[g] = append(w.own, m), m.Ptr()
	}
	for i, e := range w.engines { // an order that has seen no capture yet, sometimes without a word
		word := w.mem[w.gpu(e)].Add(7<<20 + 8*int64(i))
		must(w.t, e.dev.CopyIn(word, make([]byte, 8)))
		if w.r.IntN(4) == 0 {
			word = 0
		}
		o, err := e.dev.NewOrder(word, cuda.OrderedGraphs)
		must(w.t, err)
		w.orders, e.launcher.Order = append(w.orders, e.launcher.Order), o
	}
	for range 2 {
		do := make(chan func())
		w.threads = append(w.threads, do)
		go func() {
			runtime.LockOSThread()
			for f := range do {
				f()
			}
		}()
	}
}

func (w *script) newStream(d *cuda.Device) *cuda.Stream {
	s, err := d.NewStream()
	must(w.t, err)
	return s.(*cuda.Stream)
}

func (w *script) close() {
	for i, e := range w.engines {
		must(w.t, e.launcher.Order.Close())
		e.launcher.Order = w.orders[i]
	}
	for _, g := range w.graphs {
		must(w.t, g.x.Close())
	}
	for _, l := range w.streams {
		for _, s := range l {
			must(w.t, s.Close())
		}
	}
	for _, m := range w.own {
		must(w.t, m.Close())
	}
	for _, do := range w.threads {
		close(do)
	}
}

// on runs do on a random thread.
func (w *script) on(do func() error) {
	done := make(chan error)
	w.threads[w.r.IntN(len(w.threads))] <- func() { done <- do() }
	must(w.t, <-done)
}

func (w *script) step() {
	switch k := w.r.IntN(20); {
	case k < 2 && len(w.captures) < 3:
		w.begin()
	case k < 3 && len(w.captures) > 0:
		w.end(w.r.IntN(len(w.captures)))
	case k < 8 && len(w.captures) > 0:
		c := w.captures[w.r.IntN(len(w.captures))]
		s := c.streams[w.r.IntN(len(c.streams))]
		gpu := s.Device().ID().Index
		beside := slices.DeleteFunc(slices.Clone(c.streams),
			func(o *cuda.Stream) bool { return o.Device().ID().Index != gpu })
		w.enqueue(w.engineOn(gpu), s, beside[w.r.IntN(len(beside))])
	case k < 12 && len(w.graphs) > 0:
		g := w.graphs[w.r.IntN(len(w.graphs))]
		s := w.idleStream(g.gpu)
		w.on(func() error { return g.x.Launch(s) })
	case k < 13:
		s := w.idleStream(w.gpu(w.engines[w.r.IntN(len(w.engines))]))
		w.on(func() error { _, err := s.Query(); return err })
	case k < 14: // a stream is destroyed with work on it, and another is made
		l := w.streams[w.gpu(w.engines[w.r.IntN(len(w.engines))])]
		i := w.r.IntN(len(l))
		if !w.captured(l[i]) {
			d := l[i].Device().(*cuda.Device)
			must(w.t, l[i].Close())
			l[i] = w.newStream(d)
		}
	default:
		e := w.engines[w.r.IntN(len(w.engines))]
		s := w.idleStream(w.gpu(e))
		if w.r.IntN(8) == 0 {
			own, err := e.dev.WrapStream(2 * uintptr(w.r.IntN(2))) // the default stream, or the thread's
			must(w.t, err)
			s = own.(*cuda.Stream)
		}
		w.enqueue(e, s, w.idleStream(w.gpu(e)))
	}
}

func (w *script) captured(s *cuda.Stream) bool {
	return slices.ContainsFunc(w.captures, func(c *recording) bool { return slices.Contains(c.streams, s) })
}

// idleStream is a stream of a GPU that is in no capture: each GPU keeps one.
func (w *script) idleStream(gpu int) *cuda.Stream {
	for {
		if s := w.streams[gpu][w.r.IntN(4)]; !w.captured(s) {
			return s
		}
	}
}

func (w *script) engineOn(gpu int) *Engine {
	for {
		if e := w.engines[w.r.IntN(len(w.engines))]; w.gpu(e) == gpu {
			return e
		}
	}
}

// enqueue adds one operation of random kind and size on s, or a group with messages, one of which is received on the
// stream beside it.
func (w *script) enqueue(e *Engine, s, beside device.Stream) {
	mem := w.mem[w.gpu(e)]
	var reqs []collective.Request
	for range 1 + w.r.IntN(2) {
		c := []collective.Collective{collective.AllReduce, collective.AllGather, collective.ReduceScatter,
			collective.Broadcast, collective.Barrier, collective.Reduce}[w.r.IntN(6)]
		reqs = append(reqs, collective.Request{Collective: c, Send: mem, Recv: mem.Add(4 << 20),
			Count: int64(1) << w.r.IntN(18), Type: datatype.Float32, Stream: s})
	}
	if p, ok := w.windows[e]; ok && w.r.IntN(4) == 0 { // with the copy engines
		reqs = append(reqs, collective.Request{Collective: collective.AllGather, Send: mem, Recv: p, Count: copyFrom,
			Type: datatype.Int8, Stream: s})
	}
	if w.r.IntN(4) == 0 {
		n := int64(1) << w.r.IntN(18)
		next, before := (e.rank+1)%e.size, (e.rank+e.size-1)%e.size
		reqs = append(reqs, collective.Request{Collective: collective.Send, Send: mem, Count: n, Type: datatype.Int8,
			Peer: next, Stream: s},
			collective.Request{Collective: collective.Recv, Recv: mem.Add(4 << 20), Count: n, Type: datatype.Int8, Peer: before,
				Stream: beside})
	}
	w.on(func() error { return e.Enqueue(1, reqs) })
}

// begin captures a stream and forks it into some others, also of another GPU, each without an edge to the others.
func (w *script) begin() {
	var free []*cuda.Stream
	for _, l := range w.streams {
		for _, s := range l[:max(0, len(l)-1)] { // the last is never captured
			if !w.captured(s) {
				free = append(free, s)
			}
		}
	}
	if len(free) == 0 {
		return
	}
	w.r.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	c := &recording{free[:1+w.r.IntN(min(4, len(free)))]}
	w.captures = append(w.captures, c)
	w.on(func() error {
		if err := c.streams[0].BeginCapture(cuda.CaptureRelaxed); err != nil {
			return err
		}
		for _, s := range c.streams[1:] {
			if err := device.Join(s, c.streams[0]); err != nil {
				return err
			}
		}
		return nil
	})
}

// end joins the streams of a capture and keeps its graph, or sometimes discards it.
func (w *script) end(i int) {
	c := w.captures[i]
	w.captures = slices.Delete(w.captures, i, i+1)
	keep := w.r.IntN(5) > 0
	w.on(func() error {
		for _, s := range c.streams[1:] {
			if err := device.Join(c.streams[0], s); err != nil {
				return err
			}
		}
		g, err := c.streams[0].EndCapture()
		if err != nil || !keep {
			return errors.Join(err, g.Close())
		}
		x, err := g.Instantiate()
		if err == nil {
			w.graphs = append(w.graphs, &replay{x, c.streams[0].Device().ID().Index})
		}
		return errors.Join(err, g.Close())
	})
}

// finish runs all enqueued work, step by step.
func (w *script) finish() {
	for _, l := range w.streams {
		for _, s := range l {
			w.on(func() error {
				for {
					if ok, err := s.Query(); ok || err != nil {
						return err
					}
				}
			})
		}
	}
	for _, e := range w.engines {
		w.on(func() error {
			for {
				if ok, err := e.launcher.Order.Idle(); ok || err != nil {
					return err
				}
			}
		})
	}
}
