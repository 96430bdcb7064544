package link

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/netfake"
	"github.com/goccl/goccl/test/nettest"
	"github.com/goccl/goccl/transport"
)

// A sender that waits for room ends by its timeout, by Hurry, and by Close.
func TestAStuckPeer(t *testing.T) {
	for _, how := range []string{"timeout", "hurry", "close"} {
		t.Run(how, func(t *testing.T) {
			f := netfake.New(netfake.Options{Seed: 7})
			t.Cleanup(f.Close)
			r := connect(t, nettest.Open(t, f.Net("a")), nettest.Open(t, f.Net("b")), 4096, false)
			at, _ := nettest.Memory(t, 64)
			m := &slow{HostMemory: NewHostMemory(at, 64, false), gate: make(chan struct{})}
			r.receiver.Register(13, m)
			t.Cleanup(func() {
				close(m.gate)
				r.receiver.Unregister(13)
			})
			if err := r.link.Import(13, nil); err != nil {
				t.Fatal(err)
			}
			want := transport.ErrClosed
			if how == "timeout" {
				r.link.opt.Timeout, want = 10*time.Millisecond, ErrStuck
			}
			ended := make(chan error)
			go func() {
				var err error
				for err == nil {
					err = r.link.Add(transport.Remote{Region: 13}, 1)
				}
				ended <- err
			}()
			switch how {
			case "hurry":
				r.link.Hurry()
			case "close":
				_ = r.link.Close()
			}
			if err := <-ended; !errors.Is(err, want) {
				t.Error(err)
			}
			if how == "timeout" {
				if err := <-r.broken; !errors.Is(err, want) {
					t.Error(err)
				}
			}
		})
	}
}

// One Peer carries both directions, whichever side opens first.
func TestBothDirections(t *testing.T) {
	netfake.Schedules(t, 20, func(seed uint64, o *netfake.Options) {}, func(t testing.TB, f *netfake.Fabric) {
		var receivers [2]*Receiver
		var peers [2]transport.Peer
		var ends [2]*End
		var words [2][]byte
		for i, name := range []string{"a", "b"} {
			port := nettest.Open(t, f.Net(name))
			receivers[i] = NewReceiver(port, ReceiverOptions{})
			var at device.Ptr
			at, words[i] = nettest.Memory(t, 64)
			receivers[i].Register(1, NewHostMemory(at, 64, false))
			var err error
			if peers[i], err = port.NewPeer(); err == nil {
				ends[i], err = receivers[i].Prepare(peers[i], uint64(1-i))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		errs := make(chan error)
		for i := range 2 {
			go func() {
				err := peers[i].Connect(t.Context(), peers[1-i].Address())
				var l *Link
				if err == nil {
					l, err = ends[i].Open(ends[1-i].Offer(), Options{})
				}
				if err == nil {
					err = l.Import(1, nil)
				}
				for n := 0; n < 3*slots && err == nil; n++ {
					err = l.Add(transport.Remote{Region: 1}, 1)
				}
				if err == nil {
					err = l.Flush(t.Context())
				}
				errs <- err
			}()
		}
		if err := errors.Join(<-errs, <-errs); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			if got := binary.LittleEndian.Uint64(words[i]); got != 3*slots {
				t.Errorf("side %d has %d", i, got)
			}
			if err := receivers[i].Close(); err != nil {
				t.Error(err)
			}
		}
	})
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
