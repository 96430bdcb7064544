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
	blamed   chan int
}

// connect makes a Link from one port to another. direct says whether the network reaches the memories.
func connect(t testing.TB, a, b transport.Port, size int, direct bool) *rig {
	t.Helper()
	r := &rig{lost: make(chan error, 1), broken: make(chan error, 1), blamed: make(chan int, 2)}
	three, blamed := func() int { return 3 }, func(rank int) { r.blamed <- rank }
	r.receiver = NewReceiver(b, ReceiverOptions{Lost: func(_ uint64, err error) { r.lost <- err }, Blame: three,
		Blamed: blamed})
	t.Cleanup(func() { _ = r.receiver.Close() })
	var in, tok device.Ptr
	in, r.in = nettest.Memory(t, size)
	r.src, r.out = nettest.Memory(t, size)
	tok, _ = nettest.Memory(t, transport.TokenSize)
	r.token = wait.At(*(*unsafe.Pointer)(unsafe.Pointer(&tok)))
	r.receiver.Register(11, NewHostMemory(in, int64(size), false))
	r.receiver.Register(12, NewHostMemory(tok, transport.TokenSize, true))
	r.dst, r.sem = transport.Remote{Region: 11}, transport.Remote{Region: 12}
	opt := Options{Broken: func(err error) { r.broken <- err }, Sources: new(Sources), Blame: three, Blamed: blamed}
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
		if err := r.link.Signal(r.sem, uint64(i+1)); err != nil {
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
	t.Run("not imported", func(t *testing.T) {
		_, r := pair(t)
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

// slow is a memory whose commands wait for its gate.
type slow struct {
	*HostMemory
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
	m := &slow{HostMemory: NewHostMemory(at, 64, false), gate: make(chan struct{})}
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
		t.Errorf("%d of %d commands were applied", n, slots)
	}
	if len(r.lost) > 0 {
		t.Error("a goodbye was taken for a death: ", <-r.lost)
	}
}

// A command that must not be applied ends the link: the sender gets the reason, the receiver the loss, and no byte is
// written.
func TestRefusals(t *testing.T) {
	f := netfake.New(netfake.Options{Seed: 5})
	t.Cleanup(f.Close)
	tcpNet := tcp.NewNet(tcp.NetOptions{Interface: "lo", Sockets: 1})
	for name, send := range map[string]func(r *rig) error{
		"past the end": func(r *rig) error { return r.link.Write(r.dst.Add(4090), r.src, 8) },
		"offset overflow": func(r *rig) error {
			return r.link.Write(transport.Remote{Region: 11, Offset: 1<<64 - 4}, r.src, 8)
		},
		"no such memory": func(r *rig) error { return r.link.Write(transport.Remote{Region: 13}, r.src, 8) },
		"unaligned add":  func(r *rig) error { return r.link.Add(r.dst.Add(4), 1) },
		"not a token":    func(r *rig) error { return r.link.Signal(r.dst, 1) },
		"store at end":   func(r *rig) error { return r.link.Store(r.dst.Add(4096), 1) },
		"broken device":  func(r *rig) error { return r.link.Store(transport.Remote{Region: 14}, 1) },
	} {
		for way, nets := range map[string][2]transport.Net{"fake": {f.Net(name + "a"), f.Net(name + "b")},
			"tcp": {tcpNet, tcpNet}} {
			t.Run(name+"/"+way, func(t *testing.T) {
				r := connect(t, nettest.Open(t, nets[0]), nettest.Open(t, nets[1]), 4096, false)
				r.receiver.Register(14, brokenMemory{})
				if err := errors.Join(r.link.Import(13, nil), r.link.Import(14, nil)); err != nil {
					t.Fatal(err)
				}
				if err := send(r); err != nil {
					t.Fatal(err)
				}
				want := transport.ErrBounds
				if name == "broken device" {
					want = transport.ErrPeerGone
				}
				if err := r.link.Flush(t.Context()); !errors.Is(err, want) && !errors.Is(err, transport.ErrPeerClosed) {
					t.Error("flush: ", err)
				}
				if err := <-r.broken; !errors.Is(err, want) || errors.Is(err, transport.ErrPeerClosed) {
					t.Error("the sender: ", err)
				}
				if err := <-r.lost; !errors.Is(err, transport.ErrPeerGone) {
					t.Error("the receiver: ", err)
				}
				if err := r.link.Err(); !errors.Is(err, want) {
					t.Error("later: ", err)
				}
				if !bytes.Equal(r.in, make([]byte, 4096)) {
					t.Error("something was written")
				}
			})
		}
	}
}

// brokenMemory is memory of a device that fails.
type brokenMemory struct{ Memory }

func (brokenMemory) Size() int64               { return 64 }
func (brokenMemory) Store(int64, uint64) error { return errors.New("the device is lost") }

// Whichever end closes names the rank whose death made it leave.
func TestWhoIsToBlame(t *testing.T) {
	for name, leave := range map[string]func(r *rig) error{
		"the sender leaves":   func(r *rig) error { return r.link.Close() },
		"the receiver leaves": func(r *rig) error { return r.receiver.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			f := netfake.New(netfake.Options{Seed: 6})
			t.Cleanup(f.Close)
			r := connect(t, nettest.Open(t, f.Net("a")), nettest.Open(t, f.Net("b")), 4096, false)
			if err := r.link.Store(r.dst, 1); err != nil {
				t.Fatal(err)
			}
			if err := leave(r); err != nil {
				t.Fatal(err)
			}
			if rank := <-r.blamed; rank != 3 {
				t.Errorf("rank %d is to blame", rank)
			}
			if len(r.lost)+len(r.broken) > 0 {
				t.Error("a goodbye was taken for a death")
			}
		})
	}
}
