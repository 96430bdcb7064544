package nettest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl/transport"
)

// Config configures Run.
type Config struct {
	// Net makes the network. Each test makes its own.
	Net func(t testing.TB) transport.Net
	// Max is the size of the largest put; 0 is 64 MiB.
	Max int
	// OneProcess leaves out what needs a second process.
	OneProcess bool
	// DoneIsLocal: done only means that the bytes have left.
	DoneIsLocal bool
	// Peers is the number of peers of the test of several; 0 is 4.
	Peers int
}

// Run runs the suite.
func Run(t *testing.T, c Config) {
	if role := childRole(); role != nil {
		role.run(t, c)
		return
	}
	if c.Max == 0 {
		c.Max = 64 << 20
	}
	if testing.Short() {
		c.Max = min(c.Max, 4<<20)
	}
	if c.Peers == 0 {
		c.Peers = 4
	}
	for name, f := range map[string]func(*testing.T, Config){
		"sizes": sizes, "offsets": offsets, "immediates": immediates, "both directions": bothDirections,
		"several peers": severalPeers, "handlers": handlers, "flush": flushes, "done": dones, "bounds": bounds,
		"held":        held,
		"wrong key":   wrongKey,
		"closed peer": closedPeer, "closed port": closedPort, "killed peer": killedPeer, "wait ends": waitEnds,
	} {
		if name == "killed peer" && c.OneProcess {
			continue
		}
		t.Run(name, func(t *testing.T) { f(t, c) })
	}
}

func pair(t *testing.T, c Config, size int) (x, y *Side) {
	n := c.Net(t)
	return Join(t, Open(t, n), Open(t, n), size)
}

// sizes puts every size and looks at each byte, also at those behind.
func sizes(t *testing.T, c Config) {
	x, y := pair(t, c, c.Max+8)
	all := []int{0, 1, 7, 8, 64, 1000, 4096, 65535, 65536, 65537, 1 << 18, 1<<20 + 13, c.Max}
	all = slices.DeleteFunc(all, func(size int) bool { return size > c.Max })
	for i, size := range all {
		fill(x.Out[:size], i)
		clear(y.In[:size+8])
		x.put(t, 0, size, 5)
		y.wait(t, 5, uint64(i+1))
		if at := differ(y.In, x.Out[:size]); at >= 0 {
			t.Fatalf("%d bytes: byte %d is %d, want %d", size, at, y.In[at], x.Out[at])
		}
		if !bytes.Equal(y.In[size:size+8], make([]byte, 8)) {
			t.Fatalf("%d bytes: something was written behind them", size)
		}
		x.flush(t)
		eventually(t, "done", func() bool { return x.completed.Load() == int64(i+1) })
	}
	if n := y.Arrived(6); n != 0 {
		t.Fatalf("%d puts arrived with another immediate", n)
	}
}

// offsets puts many pieces at random places, in flight at the same time.
func offsets(t *testing.T, c Config) {
	size := min(c.Max, 8<<20)
	x, y := pair(t, c, size)
	fill(x.Out, 3)
	r := rand.New(rand.NewPCG(1, 2))
	puts := uint64(0)
	for off := 0; off < size; puts++ {
		n := min(size-off, 1+r.IntN(1<<uint(r.IntN(19))))
		x.put(t, off, n, 4095)
		off += n
	}
	y.wait(t, 4095, puts)
	if at := differ(y.In, x.Out); at >= 0 {
		t.Fatalf("byte %d is %d, want %d", at, y.In[at], x.Out[at])
	}
}

// immediates counts each immediate on its own.
func immediates(t *testing.T, c Config) {
	x, y := pair(t, c, 1<<20)
	r := rand.New(rand.NewPCG(3, 4))
	want := map[uint32]uint64{}
	for range 3000 {
		imm := uint32(r.IntN(40)) * 105
		size := r.IntN(300)
		if r.IntN(50) == 0 {
			size = 100_000
		}
		x.put(t, r.IntN(1<<20-size), size, imm)
		want[imm]++
	}
	for imm, n := range want {
		y.wait(t, imm, n)
	}
	x.flush(t)
	for imm, n := range want {
		if got := y.Arrived(imm); got != n {
			t.Errorf("immediate %d: %d arrived, want %d", imm, got, n)
		}
	}
	if err := x.Put(x.Src, 0, x.Dst, 0, 1, transport.NumImmediates, nil); !errors.Is(err, transport.ErrBounds) {
		t.Errorf("an immediate too large: %v", err)
	}
}

// exchange puts rounds of a size and answers each with one of the other side.
func exchange(t testing.TB, s *Side, size, rounds int) {
	for i := range rounds {
		s.put(t, 0, size, 1)
		s.wait(t, 1, uint64(i+1))
	}
	s.flush(t)
}

// ExchangeImmediate is the immediate value of Exchange's puts.
const ExchangeImmediate = 30

// Exchange makes rounds of puts of different sizes that fill the region, and compares what the other side put in its
// own rounds, which are the same.
func Exchange(t testing.TB, s *Side, size, rounds int) {
	const ready = ExchangeImmediate + 1
	want := make([]byte, size)
	for i := range rounds {
		fill(s.Out[:size], i)
		for _, p := range [][2]int{{0, 8}, {8, 4096}, {4104, 70_000}, {74104, size - 74104}} {
			s.put(t, p[0], p[1], ExchangeImmediate)
		}
		s.wait(t, ExchangeImmediate, uint64(4*(i+1)))
		fill(want, i)
		if at := differ(s.In, want); at >= 0 {
			t.Errorf("round %d: byte %d is %d, want %d", i, at, s.In[at], want[at])
			return
		}
		s.flush(t)
		s.put(t, 0, 0, ready)
		s.wait(t, ready, uint64(i+1))
	}
}

func bothDirections(t *testing.T, c Config) {
	size := min(c.Max, 4<<20)
	x, y := pair(t, c, size)
	fill(x.Out, 1)
	fill(y.Out, 2)
	var all sync.WaitGroup
	for _, s := range []*Side{x, y} {
		all.Go(func() { exchange(t, s, size, 8) })
		all.Go(func() {
			for i := range 200 {
				s.put(t, i, 16, 2)
				s.wait(t, 2, uint64(i+1))
			}
		})
	}
	all.Wait()
	if at := max(differ(y.In, x.Out), differ(x.In, y.Out)); at >= 0 {
		t.Fatalf("byte %d is wrong", at)
	}
}

// severalPeers lets one port have many peers that all put at once.
func severalPeers(t *testing.T, c Config) {
	n := c.Net(t)
	hub := Open(t, n)
	const size = 300_000
	var all sync.WaitGroup
	for i := range c.Peers {
		x, y := Join(t, hub, Open(t, n), size)
		fill(x.Out, i)
		fill(y.Out, i+100)
		for _, s := range []*Side{x, y} {
			all.Go(func() { exchange(t, s, size, 5) })
		}
		t.Cleanup(func() {
			if differ(y.In, x.Out) >= 0 || differ(x.In, y.Out) >= 0 {
				t.Errorf("peer %d: wrong bytes", i)
			}
		})
	}
	all.Wait()
}

func handlers(t *testing.T, c Config) {
	x, y := pair(t, c, 4096)
	var calls, highest atomic.Uint64
	y.OnArrival(9, func(n uint64) {
		calls.Add(1)
		highest.Store(max(highest.Load(), n))
	})
	for range 100 {
		x.put(t, 0, 8, 9)
		x.put(t, 0, 8, 10)
	}
	y.wait(t, 9, 100)
	y.wait(t, 10, 100)
	eventually(t, "handler", func() bool { return calls.Load() == 100 && highest.Load() == 100 })
	y.OnArrival(9, nil)
	x.put(t, 0, 8, 9)
	y.wait(t, 9, 101)
	if calls.Load() != 100 {
		t.Error("a handler that was removed was called")
	}
}

// flushes checks that a flush means arrival.
func flushes(t *testing.T, c Config) {
	x, y := pair(t, c, 1<<20)
	x.flush(t)
	for i := range 50 {
		x.put(t, 0, 1<<uint(i%21), 7)
		x.flush(t)
		if n := y.Arrived(7); n != uint64(i+1) {
			t.Fatalf("after flush %d: %d puts have arrived", i+1, n)
		}
		eventually(t, "done", func() bool { return x.completed.Load() == int64(i+1) })
	}
	// Many puts without done: the sockets are full when the flush begins.
	for _, size := range []int{0, 8, 40 << 10, 300 << 10, 1 << 20} {
		for range min(1000, 64<<20/max(1, size)) {
			if err := x.Put(x.Src, 0, x.Dst, 0, int64(size), 8, nil); err != nil {
				t.Fatal(err)
			}
		}
		x.flush(t)
	}
}

// bounds are checked before anything is sent; the Peer survives.
func bounds(t *testing.T, c Config) {
	x, y := pair(t, c, 4096)
	if n := x.Dst.Size(); n != 4096 {
		t.Fatalf("the region has %d bytes", n)
	}
	for _, b := range [][3]int64{{0, 4000, 97}, {4000, 0, 97}, {0, -1, 8}, {-1, 0, 8}, {0, 0, -1}, {0, 4097, 0},
		{0, 1 << 62, 1 << 62}} {
		if err := x.Put(x.Src, b[0], x.Dst, b[1], b[2], 0, nil); !errors.Is(err, transport.ErrBounds) {
			t.Errorf("%d bytes from %d to %d: %v", b[2], b[0], b[1], err)
		}
	}
	x.put(t, 4095, 1, 0)
	y.wait(t, 0, 1)
	if _, err := x.Port.Register(nil, 0, 8); err == nil {
		t.Error("no memory can be registered")
	}
}

// wrongKey must neither write nor hang.
func wrongKey(t *testing.T, c Config) {
	x, y := pair(t, c, 4096)
	for name, key := range map[string][]byte{"nothing": nil, "text": []byte("no key"), "cut": x.Own.Key()[:3]} {
		if _, err := x.Import(key); err == nil {
			t.Errorf("%s: a key", name)
		}
	}
	// A region that is closed at its owner. The owner refuses the put, and both sides learn of it.
	ptr, mem := Memory(t, 4096)
	r, err := y.Port.Register(nil, ptr, 4096)
	if err != nil {
		t.Fatal(err)
	}
	dst := imported(t, x, r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	fill(x.Out, 9)
	done := make(chan error, 1)
	if err := x.Put(x.Src, 0, dst, 0, 64, 0, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Side{"sender": x, "owner": y} {
		select {
		case <-s.Failed():
			if name == "sender" && !errors.Is(s.Err(), transport.ErrBounds) {
				t.Errorf("%s: %v, want ErrBounds", name, s.Err())
			}
		case <-time.After(limit):
			t.Fatalf("the %s does not learn that a key was wrong", name)
		}
	}
	if err := <-done; err == nil && !c.DoneIsLocal {
		t.Error("the put counts as done")
	}
	if !bytes.Equal(mem, make([]byte, 4096)) {
		t.Error("a closed region was written")
	}
	if err := x.Put(x.Src, 0, x.Dst, 0, 8, 0, nil); err == nil {
		t.Error("a broken Peer takes a put")
	}
}

// closedPeer: a goodbye is not a death, and everybody learns of it.
func closedPeer(t *testing.T, c Config) {
	x, y := pair(t, c, 4096)
	x.put(t, 0, 8, 3)
	x.flush(t)
	errs := make(chan error, 1)
	go func() { errs <- y.Wait(context.Background(), 3, 2) }()
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-errs; !errors.Is(err, transport.ErrPeerClosed) {
		t.Errorf("the waiter gets %v, want ErrPeerClosed", err)
	}
	if err := y.Wait(t.Context(), 3, 1); err != nil {
		t.Errorf("what arrived before is lost: %v", err)
	}
	if err := y.Err(); !errors.Is(err, transport.ErrPeerClosed) {
		t.Errorf("%v, want ErrPeerClosed", err)
	}
	if err := x.Err(); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
	if err := x.Put(x.Src, 0, x.Dst, 0, 8, 3, nil); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("put on a closed Peer: %v", err)
	}
	if err := errors.Join(x.Close(), y.Close()); err != nil {
		t.Error("a second Close: ", err)
	}
}

// closedPort ends its Peers.
func closedPort(t *testing.T, c Config) {
	x, y := pair(t, c, 4096)
	if err := x.Port.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-y.Failed():
		if !errors.Is(y.Err(), transport.ErrPeerClosed) {
			t.Errorf("%v, want ErrPeerClosed", y.Err())
		}
	case <-time.After(limit):
		t.Fatal("the other side does not learn of it")
	}
	if _, err := x.Port.NewPeer(); err == nil {
		t.Error("a closed port makes a Peer")
	}
}

// waitEnds with its context.
func waitEnds(t *testing.T, c Config) {
	x, _ := pair(t, c, 4096)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := x.Wait(ctx, 0, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	n := c.Net(t)
	lonely, err := Open(t, n).NewPeer()
	if err != nil {
		t.Fatal(err)
	}
	other, err := Open(t, n).NewPeer()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_ = lonely.Connect(ctx, other.Address()) // one of the halves dials, and may succeed alone
	if ctx.Err() == nil && lonely.Err() != nil {
		t.Error("Connect failed before its time: ", lonely.Err())
	}
	if err := other.Connect(t.Context(), []byte("no address")); err == nil {
		t.Error("Connect takes a text for an address")
	}
}
