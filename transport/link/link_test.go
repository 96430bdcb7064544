package link

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/test/netfake"
	"github.com/goccl/goccl/test/nettest"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/tcp"
)

type rig struct {
	link     *Link
	receiver *Receiver
	out, in  []byte
	src      device.Ptr
	dst      transport.Remote
	token    *wait.Cell
	sem      transport.Remote
	lost     chan error
	broken   chan error
}

// connect makes a Link from one port to another. direct says whether the network reaches the memories.
func connect(t testing.TB, a, b transport.Port, size int, direct bool) *rig {
	t.Helper()
	r := &rig{lost: make(chan error, 1), broken: make(chan error, 1)}
	r.receiver = NewReceiver(b, ReceiverOptions{Lost: func(_ uint64, err error) { r.lost <- err }})
	t.Cleanup(func() { _ = r.receiver.Close() })
	var in, tok device.Ptr
	in, r.in = nettest.Memory(t, size)
	r.src, r.out = nettest.Memory(t, size)
	tok, _ = nettest.Memory(t, transport.TokenSize)
	r.token = wait.At(*(*unsafe.Pointer)(unsafe.Pointer(&tok)))
	r.receiver.Register(11, tcp.NewHostMemory(in, int64(size), false))
	r.receiver.Register(12, tcp.NewHostMemory(tok, transport.TokenSize, true))
	r.dst, r.sem = transport.Remote{Region: 11}, transport.Remote{Region: 12}
	opt := Options{Broken: func(err error) { r.broken <- err }, Sources: new(Sources)}
	var key []byte
	if direct {
		own, err := b.Register(nil, in, int64(size))
		if err != nil {
			t.Fatal(err)
		}
		key = own.Key()
		mine, err := a.Register(nil, r.src, int64(size))
		if err != nil {
			t.Fatal(err)
		}
		opt.Sources.Add(r.src, int64(size), mine)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var err error
	r.link, err = Dial(ctx, a, func(_ context.Context, request []byte) ([]byte, error) {
		return r.receiver.Accept(request, 77)
	}, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.link.Close() })
	if err := errors.Join(r.link.Import(11, key), r.link.Import(12, nil)); err != nil {
		t.Fatal(err)
	}
	return r
}

func limit() wait.Limit { return wait.Limit{Deadline: wait.After(30 * time.Second)} }

// ordered writes and signals; each signal means that every write before it is there, whatever the order on the way.
func ordered(t testing.TB, r *rig, rounds int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	size := len(r.out)
	for i := range rounds {
		v := byte(i + 1)
		for k := range r.out {
			r.out[k] = v
		}
		for at := 0; at < size; {
			n := min(size-at, 1+rng.IntN(size/2))
			if err := r.link.Write(r.dst.Add(uint64(at)), r.src.Add(int64(at)), int64(n)); err != nil {
				t.Fatal(err)
			}
			at += n
		}
		if err := r.link.Signal(r.sem, uint64(i+1), true); err != nil {
			t.Fatal(err)
		}
		if err := r.token.WaitAtLeast(uint64(i+1), limit(), nil); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(r.in, r.out) {
			t.Fatalf("round %d: the signal overtook a write", i)
		}
	}
	word, _ := nettest.Memory(t, 64)
	for range 3 * slots { // more than the ring holds
		if err := r.link.Add(r.dst, 1<<32); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(r.link.Store(r.dst.Add(8), 9), r.link.Mark(word, 42)); err != nil {
		t.Fatal(err)
	}
	if err := wait.At(*(*unsafe.Pointer)(unsafe.Pointer(&word))).WaitAtLeast(42, limit(), nil); err != nil {
		t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint64(r.in[8:]); got != 9 {
		t.Errorf("the stored word is %d", got)
	}
	want := uint64(3*slots)<<32 + uint64(r.out[0])*0x01010101_01010101
	if got := binary.LittleEndian.Uint64(r.in); got != want {
		t.Errorf("the sum is %#x, want %#x", got, want)
	}
	if err := r.link.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestOrderOverTCP(t *testing.T) {
	for name, direct := range map[string]bool{"direct": true, "staged": false} {
		t.Run(name, func(t *testing.T) {
			n := tcp.NewNet(tcp.NetOptions{Interface: "lo", Sockets: 2})
			ordered(t, connect(t, nettest.Open(t, n), nettest.Open(t, n), 300_000, direct), 20)
		})
	}
}

// A network that reorders, repeats and delays everything.
func TestOrderOverTheFake(t *testing.T) {
	schedules := 0
	netfake.Schedules(t, 60, func(seed uint64, o *netfake.Options) { o.Repeat = 0.5 },
		func(t testing.TB, f *netfake.Fabric) {
			a, b := nettest.Open(t, f.Net("a")), nettest.Open(t, f.Net("b"))
			schedules++
			ordered(t, connect(t, a, b, 6000, schedules%2 == 0), 5)
		})
}

func TestALinkEnds(t *testing.T) {
	pair := func(t *testing.T) (*netfake.Fabric, *rig) {
		f := netfake.New(netfake.Options{Seed: 3})
		t.Cleanup(f.Close)
		return f, connect(t, nettest.Open(t, f.Net("a")), nettest.Open(t, f.Net("b")), 4096, true)
	}
	t.Run("bounds", func(t *testing.T) {
		_, r := pair(t)
		if err := r.link.Store(r.dst.Add(4096), 1); err != nil {
			t.Fatal(err)
		}
		if err := r.link.Flush(t.Context()); err == nil {
			t.Error("a store outside of the memory is applied")
		}
		if err := r.link.Add(transport.Remote{Region: 99}, 1); !errors.Is(err, transport.ErrNotReachable) {
			t.Error(err)
		}
	})
	t.Run("death", func(t *testing.T) {
		f, r := pair(t)
		f.Kill("a")
		for name, c := range map[string]chan error{"receiver": r.lost, "link": r.broken} {
			if err := <-c; !errors.Is(err, transport.ErrPeerGone) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("goodbye", func(t *testing.T) {
		_, r := pair(t)
		if err := errors.Join(r.link.Flush(t.Context()), r.link.Close(), r.receiver.Close()); err != nil {
			t.Fatal(err)
		}
		if len(r.lost) > 0 {
			t.Error("a goodbye was taken for a death: ", <-r.lost)
		}
		if err := r.link.Store(r.dst, 1); !errors.Is(err, transport.ErrClosed) {
			t.Error(err)
		}
	})
}

// slow is a memory whose records wait for its gate.
type slow struct {
	*tcp.HostMemory
	gate    chan struct{}
	applied atomic.Int64
}

func (m *slow) Add(off int64, delta uint64) error {
	<-m.gate
	m.applied.Add(1)
	return m.HostMemory.Add(off, delta)
}

// TestCloseOfAFullRing: a goodbye waits until the ring has room for it, and what the ring holds arrives.
func TestCloseOfAFullRing(t *testing.T) {
	f := netfake.New(netfake.Options{Seed: 4})
	t.Cleanup(f.Close)
	r := connect(t, nettest.Open(t, f.Net("a")), nettest.Open(t, f.Net("b")), 4096, false)
	at, _ := nettest.Memory(t, 64)
	m := &slow{HostMemory: tcp.NewHostMemory(at, 64, false), gate: make(chan struct{})}
	r.receiver.Register(13, m)
	if err := r.link.Import(13, nil); err != nil {
		t.Fatal(err)
	}
	for range slots {
		if err := r.link.Add(transport.Remote{Region: 13}, 1); err != nil {
			t.Fatal(err)
		}
	}
	closed := make(chan error)
	go func() { closed <- r.link.Close() }()
	time.Sleep(50 * time.Millisecond) // the goodbye finds the ring full
	close(m.gate)
	if err := errors.Join(<-closed, r.receiver.Close()); err != nil {
		t.Fatal(err)
	}
	if n := m.applied.Load(); n != slots {
		t.Errorf("%d of %d records were applied", n, slots)
	}
	if len(r.lost) > 0 {
		t.Error("a goodbye was taken for a death: ", <-r.lost)
	}
}

func TestSources(t *testing.T) {
	var s Sources
	a, b := &named{"a"}, &named{"b"}
	s.Add(0x2000, 0x1000, b)
	s.Add(0x1000, 0x1000, a)
	s.Add(0x1800, 0x10, b) // overlaps
	for _, c := range []struct {
		p    device.Ptr
		n    int64
		want transport.Region
		off  int64
	}{{0x1000, 0x1000, a, 0}, {0x1810, 8, a, 0x810}, {0x2ff8, 8, b, 0xff8}, {0x1ff8, 16, nil, 0}, {0xff8, 8, nil, 0},
		{0x3000, 1, nil, 0}} {
		if r, off := s.find(c.p, c.n); r != c.want || off != c.off {
			t.Errorf("%d bytes at %#x: %v at %#x", c.n, c.p, r, off)
		}
	}
	s.Remove(a)
	if r, _ := s.find(0x1000, 8); r != nil {
		t.Error("a removed registration is found")
	}
}

type named struct{ name string }

func (*named) Key() []byte  { return nil }
func (*named) Close() error { return nil }
