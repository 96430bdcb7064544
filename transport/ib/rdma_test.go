package ib

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/nettest"
	"github.com/goccl/goccl/transport"
)

func TestConformance(t *testing.T) {
	adapterOrSkip(t)
	nettest.Run(t, nettest.Config{Net: func(testing.TB) transport.Net { return New(options()) }, Max: 4 << 20, Peers: 3})
}

func adapterOrSkip(t *testing.T) {
	t.Helper()
	nics, err := New(options()).NICs()
	if err != nil {
		t.Fatal(err)
	}
	if len(nics) == 0 {
		t.Skip("this host has no RDMA adapter; make rdma runs these tests in a virtual machine")
	}
}

// The tests of this file need an RDMA adapter. `make rdma` runs them in a virtual machine.

func options() Options { return Options{IB: setting.DefaultIB} }

func openPort(t *testing.T, opt Options) *Port {
	t.Helper()
	adapterOrSkip(t)
	port, err := New(opt).Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := port.Close(); err != nil {
			t.Error(err)
		}
	})
	return port.(*Port)
}

// buffer is registered memory.
type buffer struct {
	transport.Region
	bytes []byte
	ptr   device.Ptr
}

func register(t *testing.T, p *Port, size int64) buffer {
	t.Helper()
	dev, err := host.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	a, err := dev.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Register(dev, a.Ptr(), size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return buffer{r, device.Bytes(a.Ptr(), size), a.Ptr()}
}

// pair connects two Peers of two ports of the same adapter.
func pair(t *testing.T, a, b *Port) (x, y *Peer) {
	t.Helper()
	px, err := a.NewPeer()
	if err != nil {
		t.Fatal(err)
	}
	py, err := b.NewPeer()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make([]error, 2)
	wg.Go(func() { errs[0] = px.Connect(t.Context(), py.Address()) })
	wg.Go(func() { errs[1] = py.Connect(t.Context(), px.Address()) })
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return px.(*Peer), py.(*Peer)
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestConnectLate has one half connect after the other's adapter has given up sending its hello.
func TestConnectLate(t *testing.T) {
	opt := options()
	opt.Timeout, opt.Retries = 12, 2 // 50 ms
	a, b := openPort(t, opt), openPort(t, opt)
	x, err := a.NewPeer()
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.NewPeer()
	if err != nil {
		t.Fatal(err)
	}
	early := make(chan error, 1)
	go func() { early <- x.Connect(t.Context(), y.Address()) }()
	for x.(*Peer).restarts.Load() < 3 {
		time.Sleep(time.Millisecond)
	}
	if err := y.Connect(within(t, 20*time.Second), x.Address()); err != nil {
		t.Fatal(err)
	}
	if err := <-early; err != nil {
		t.Fatal(err)
	}
	src, dst := register(t, a, 4096), register(t, b, 4096)
	copy(src.bytes, "after a late start")
	to, err := x.Import(dst.Key())
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Put(src.Region, 0, to, 0, 18, 3, nil); err != nil {
		t.Fatal(err)
	}
	if err := y.Wait(within(t, 10*time.Second), 3, 1); err != nil {
		t.Fatal(err)
	}
	if got := string(dst.bytes[:18]); got != "after a late start" {
		t.Errorf("%q", got)
	}
	if y.Arrived(3) != 1 || y.Arrived(2) != 0 {
		t.Errorf("%d and %d arrivals", y.Arrived(3), y.Arrived(2))
	}
}

// TestConnectAlone expects a deadline to end the wait for the other half.
func TestConnectAlone(t *testing.T) {
	p := openPort(t, options())
	x, err := p.NewPeer()
	if err != nil {
		t.Fatal(err)
	}
	y, err := p.NewPeer()
	if err != nil {
		t.Fatal(err)
	}
	err = x.Connect(within(t, 300*time.Millisecond), y.Address())
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, transport.ErrPeerGone) {
		t.Error(err)
	}
}

// TestPuts writes messages of many sizes in both directions at once, more than the adapter and its receives hold.
func TestPuts(t *testing.T) {
	opt := options()
	opt.SendDepth, opt.ReceiveDepth = 8, 8
	a, b := openPort(t, opt), openPort(t, opt)
	x, y := pair(t, a, b)
	const slot, slots = 5000, 64
	one := func(p *Port, me, other *Peer, q *Port, seed byte) error {
		src, dst := register(t, p, slot*slots), register(t, q, slot*slots)
		for i := range src.bytes {
			src.bytes[i] = byte(i)*7 + seed
		}
		to, err := me.Import(dst.Key())
		if err != nil {
			return err
		}
		var done sync.WaitGroup
		var failed error
		for i := range slots {
			size := int64(i * i * slot / slots / slots)
			if i%3 == 0 {
				size = int64(i) // inline
			}
			done.Add(1)
			from := src.Region
			if size == 0 {
				from = nil // only the immediate counts
			}
			if err := me.Put(from, int64(i)*slot, to, int64(i)*slot, size, uint32(i), func(err error) {
				failed = errors.Join(failed, err)
				done.Done()
			}); err != nil {
				return err
			}
			if i%16 == 0 {
				time.Sleep(time.Millisecond) // the goroutine goes to sleep now and then
			}
		}
		done.Wait()
		if err := me.Flush(within(t, 20*time.Second)); err != nil {
			return err
		}
		for i := range slots {
			if err := other.Wait(within(t, 20*time.Second), uint32(i), 1); err != nil {
				return err
			}
			size := i * i * slot / slots / slots
			if i%3 == 0 {
				size = i
			}
			if !bytes.Equal(src.bytes[i*slot:][:size], dst.bytes[i*slot:][:size]) {
				t.Errorf("put %d differs", i)
			}
			if rest := dst.bytes[i*slot:][size:slot]; len(bytes.Trim(rest, "\x00")) > 0 {
				t.Errorf("put %d wrote behind its end", i)
			}
		}
		return failed
	}
	var wg sync.WaitGroup
	errs := make([]error, 2)
	wg.Go(func() { errs[0] = one(a, x, y, b, 1) })
	wg.Go(func() { errs[1] = one(b, y, x, a, 2) })
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestGPUFlush has every arrival read the memory first, as if it were a GPU's.
func TestGPUFlush(t *testing.T) {
	a, b := openPort(t, options()), openPort(t, options())
	x, y := pair(t, a, b)
	src, dst := register(t, a, 1<<16), register(t, b, 1<<16)
	dst.Region.(*region).dev = device.ID{Kind: device.CUDA}
	if err := b.flush.add(b, dst.Region.(*region)); err != nil {
		t.Fatal(err)
	}
	to, err := x.Import(dst.Key())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		for j := range src.bytes {
			src.bytes[j] = byte(i + j)
		}
		if err := x.Put(src.Region, 0, to, 0, 1<<16, 1, nil); err != nil {
			t.Fatal(err)
		}
		if err := y.Wait(within(t, 20*time.Second), 1, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(src.bytes, dst.bytes) {
			t.Fatalf("put %d differs", i)
		}
		if err := x.Flush(within(t, 20*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	// A read of memory that is gone breaks the Peer: it is not ignored.
	if err := dst.Region.(*region).mr.Close(); err != nil {
		t.Fatal(err)
	}
	other := register(t, b, 4096)
	if to, err = x.Import(other.Key()); err != nil {
		t.Fatal(err)
	}
	if err := x.Put(src.Region, 0, to, 0, 8, 2, nil); err != nil {
		t.Fatal(err)
	}
	if err := y.Wait(within(t, 20*time.Second), 2, 1); !errors.Is(err, ErrQueuePair) {
		t.Errorf("the flush failed, and the arrival got %v", err)
	}
	dst.Region.(*region).once.Do(func() { b.drop(dst.Region.(*region)) })
}
