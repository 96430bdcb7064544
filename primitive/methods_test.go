package primitive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
)

// TestPortChannelMethods tests every method of a port channel, one call at a time.
func TestPortChannelMethods(t *testing.T) {
	for _, tr := range transports() {
		t.Run(tr.String(), func(t *testing.T) {
			ca, cb := newContext(t), newContext(t)
			x, y := pair(t, tr, ca, cb)
			both := Flags(transports()...)
			src, in := x.memory(t, 4096, both)
			dst, out := y.memory(t, 4096, both)
			fill(in, 5)
			service := must[*ProxyService](t)(NewProxyService(ca, x.dev, ProxyOptions{}))
			to, from := must[MemoryID](t)(service.AddMemory(x.receive(t, dst))), must[MemoryID](t)(service.AddMemory(src))
			id := must[SemaphoreID](t)(service.AddSemaphore(x.sema))
			base, channel := must[*BasePortChannel](t)(service.BasePortChannel(id)),
				must[*PortChannel](t)(service.PortChannel(id, to, from))
			if base.Semaphore() != x.sema || channel.Semaphore() != x.sema {
				t.Error("another semaphore")
			}
			b, h := base.DeviceHandle(), channel.DeviceHandle()
			there, here := y.sema.DeviceHandle(), must[*Host2HostSemaphore](t)(NewHost2HostSemaphore(y.sema))
			if err := service.Start(); err != nil {
				t.Fatal(err)
			}
			arrived := func(what string, s, w Status, lo, hi int) {
				t.Helper()
				if s != StatusOK || w != StatusOK || !bytes.Equal(out[lo:hi], in[lo:hi]) || service.Err() != nil {
					t.Fatalf("%s: %v, %v, %v", what, s, w, service.Err())
				}
			}
			s := b.PutTo(to, 0, from, 0, 100)
			if s == StatusOK {
				s = b.Signal()
			}
			arrived("PutTo and Signal", s, there.Wait(), 0, 100)
			arrived("PutToWithSignal", b.PutToWithSignal(to, 100, from, 100, 100), there.Wait(), 0, 200)
			arrived("PutToWithSignalAndFlush", b.PutToWithSignalAndFlush(to, 200, from, 200, 100), there.Wait(), 0, 300)
			if s = h.Put(300, 300, 100); s == StatusOK {
				s = h.Flush()
			}
			arrived("Put and Flush", s, StatusOK, 300, 300) // a flush means that the source may be reused; the signal publishes
			arrived("PutWithSignal", h.PutWithSignal(400, 400, 100), there.Wait(), 0, 500)
			arrived("PutWithSignalAndFlush", h.PutWithSignalAndFlush(500, 500, 100), there.Wait(), 0, 600)

			// The other direction: the host signals, a kernel polls and waits.
			if h.Poll() {
				t.Error("a signal that nobody sent")
			}
			for range 2 {
				if err := here.Signal(); err != nil {
					t.Fatal(err)
				}
			}
			if s := h.Wait(); s != StatusOK {
				t.Fatal(s)
			}
			for end := time.Now().Add(5 * time.Second); !h.Poll(); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the second signal is lost")
				}
			}

			// Ids are free after their removal, and a trigger that still uses one fails.
			service.RemoveMemory(to)
			if s := h.PutWithSignalAndFlush(0, 0, 8); s != StatusAborted || !errors.Is(ca.Err(), ErrInvalid) {
				t.Errorf("a removed memory: %v, %v", s, ca.Err())
			}
			if err := service.Stop(); !errors.Is(err, ErrInvalid) {
				t.Error(err)
			}
			ca.Recover()
			if again := must[MemoryID](t)(service.AddMemory(src)); again != to {
				t.Errorf("id %d, want %d again", again, to)
			}
			service.RemoveSemaphore(id)
			if _, err := service.BasePortChannel(id); !errors.Is(err, ErrInvalid) {
				t.Errorf("a removed semaphore: %v", err)
			}
			for range 2 {
				if err := service.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := service.Start(); !errors.Is(err, ErrClosed) {
				t.Errorf("start after Close: %v", err)
			}
		})
	}
}

// TestSemaphoreKinds signals from the host to kernels, between hosts, and between kernels.
func TestSemaphoreKinds(t *testing.T) {
	for _, tr := range transports() {
		t.Run(tr.String(), func(t *testing.T) {
			ctx := newContext(t)
			x, y := pair(t, tr, ctx, ctx)
			to, from := NewHost2DeviceSemaphore(x.sema), NewHost2DeviceSemaphore(y.sema)
			k := from.DeviceHandle()
			if err := to.Signal(); err != nil || k.Wait() != StatusOK || to.Connection() != x.conn {
				t.Fatal(err)
			}
			if k.RemoteInbound != 0 {
				t.Error("a kernel could signal the host")
			}
			a, b := must[*Host2HostSemaphore](t)(NewHost2HostSemaphore(x.sema)),
				must[*Host2HostSemaphore](t)(NewHost2HostSemaphore(y.sema))
			for range 3 {
				if err := errors.Join(a.Signal(), b.Wait(context.Background()), b.Signal(),
					a.Wait(context.Background())); err != nil {
					t.Fatal(err)
				}
			}
			if a.Poll() || a.Connection() != x.conn {
				t.Error("a signal is left over")
			}
			soon, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			if err := a.Wait(soon); !errors.Is(err, ErrTimeout) {
				t.Error(err)
			}
			if err := b.Signal(); err != nil { // the wait that failed consumed nothing
				t.Fatal(err)
			}
			if err := a.Wait(context.Background()); err != nil {
				t.Fatal(err)
			}
			p, err := x.sema.kernelHandle("device semaphore")
			if tr.network() {
				if !errors.Is(err, ErrInvalid) {
					t.Errorf("kernels signal over sockets: %v", err)
				}
				return
			}
			q := must[SemaphoreHandle](t)(y.sema.kernelHandle("device semaphore"))
			p.Signal()
			q.RelaxedSignal()
			if q.Wait() != StatusOK || p.RelaxedWait() != StatusOK || p.Poll() || q.Poll() {
				t.Error("signals between kernels")
			}
		})
	}
}

// TestMemoryChannelSignalsAndOnePacket covers the forms of signals and the reading of a single packet.
func TestMemoryChannelSignalsAndOnePacket(t *testing.T) {
	ctx := newContext(t)
	x, y := pair(t, IPC, ctx, ctx)
	src, in := x.memory(t, 64, Flags(IPC))
	buffer, _ := y.memory(t, LL16.BufferSize(64), Flags(IPC))
	mine, _ := y.memory(t, 64, Flags(IPC))
	a := must[*MemoryChannel](t)(NewMemoryChannel(x.sema, x.receive(t, buffer), src, nil)).DeviceHandle()
	b := must[*MemoryChannel](t)(NewMemoryChannel(y.sema, y.receive(t, src), mine, buffer)).DeviceHandle()
	a.RelaxedSignal()
	if s := b.RelaxedWait(); s != StatusOK || b.Poll() {
		t.Fatal(s)
	}
	a.Signal()
	if !b.Poll() {
		t.Fatal("a signal cannot be polled")
	}
	copy(in, "12345678abcdefgh")
	go a.PutPackets(LL16, 0, 0, 16, 0, 1, 7)
	for i, want := range []string{"12345678", "abcdefgh"} {
		v, s := b.UnpackPacket(int64(i), 7)
		if got := string(binaryBytes(v)); s != StatusOK || got != want {
			t.Errorf("packet %d: %q, %v", i, got, s)
		}
	}
}

func binaryBytes(v uint64) (b []byte) {
	for range 8 {
		b = append(b, byte(v))
		v >>= 8
	}
	return b
}

func TestSwitchChannelElementsAndBounds(t *testing.T) {
	const n, count = 3, 16
	job(t, n, func(r *rank) error {
		bg := context.Background()
		a, err := r.dev.Alloc(count * 8)
		if err != nil {
			return err
		}
		mem, err := r.comm.Context().RegisterMemory(r.dev, a.Ptr(), count*8, Flags(IPC))
		if err != nil {
			return err
		}
		sw, err := NewSwitchChannel(bg, r.comm, r.dev, mem, 3)
		if err != nil {
			return err
		}
		h := sw.DeviceHandle()
		me := int64(r.comm.Rank())
		BroadcastElement(&h, me, 100+me)
		if err := r.comm.Bootstrap().Barrier(bg); err != nil {
			return err
		}
		for i := range int64(n) {
			if got := ReduceElement[int64](&h, i); got != n*(100+i) {
				return fmt.Errorf("element %d: %d", i, got)
			}
		}
		for _, bad := range [][2]int64{{-1, 1}, {0, -1}, {0, count + 1}, {count, 1}, {1 << 62, 1}, {1, 1<<63 - 1},
			{1 << 60, 1 << 60}} {
			if err := h.Reduce(a.Ptr(), bad[0], bad[1], datatype.Int64, datatype.Sum, 0, 1); !errors.Is(err, ErrInvalid) {
				return fmt.Errorf("reduce %v: %v", bad, err)
			}
			if err := h.Broadcast(bad[0]*8, a.Ptr(), bad[1]*8, 0, 1); bad[0] < 1<<59 && bad[1] < 1<<59 &&
				!errors.Is(err, ErrInvalid) {
				return fmt.Errorf("broadcast %v: %v", bad, err)
			}
		}
		if err := r.comm.Bootstrap().Barrier(bg); err != nil {
			return err
		}
		return errors.Join(sw.Close(), sw.Close())
	})
}

// TestDeferredStyle sets up everything with one Setup, and checks that a Setup returns all errors.
func TestDeferredStyle(t *testing.T) {
	job(t, 2, func(r *rank) error {
		bg := context.Background()
		other := 1 - r.comm.Rank()
		a, err := r.dev.Alloc(64)
		if err != nil {
			return err
		}
		mem, err := r.comm.Context().RegisterMemory(r.dev, a.Ptr(), 64, Flags(IPC))
		if err != nil {
			return err
		}
		conn := r.comm.ConnectOnSetup(other, 1, EndpointConfig{Transport: IPC, Device: r.dev})
		r.comm.SendMemoryOnSetup(mem, other, 1)
		got := r.comm.RecvMemoryOnSetup(other, 1)
		if err := r.comm.Setup(bg); err != nil {
			return err
		}
		select {
		case <-conn.Done():
		default:
			return errors.New("not done after Setup")
		}
		c, err := conn.Get(bg)
		if err != nil {
			return err
		}
		if c.Context() != r.comm.Context() || c.Device() != device.Device(r.dev) || c.Local().Transport() != IPC ||
			!c.Local().Local() || c.Err() != nil {
			return fmt.Errorf("the connection is another: %+v", c)
		}
		sema := r.comm.BuildSemaphoreOnSetup(c, other, 1)
		if err := r.comm.Setup(bg); err != nil {
			return err
		}
		m, err := got.Get(bg)
		if err != nil || m.Size() != 64 || m.Local() || m.Transports() != Flags(IPC) || m.Owner().Kind != device.Host {
			return fmt.Errorf("memory %+v: %w", m, err)
		}
		if p, err := m.Map(bg, r.dev); err != nil || p == 0 || p != m.Data() {
			return fmt.Errorf("mapped at %#x and %#x: %w", p, m.Data(), err)
		}
		s, err := sema.Get(bg)
		if err != nil {
			return err
		}
		h := s.DeviceHandle()
		h.Signal()
		if st := h.Wait(); st != StatusOK {
			return st.Err()
		}
		r.comm.RecvMemoryOnSetup(9, 1)
		if err := r.comm.Setup(bg); !errors.Is(err, ErrInvalid) {
			return fmt.Errorf("rank 9: %v", err)
		}
		return r.comm.Setup(bg) // nothing is pending
	})
}

// TestFirstAbortCounts holds that a second Abort changes nothing.
func TestFirstAbortCounts(t *testing.T) {
	ctx := newContext(t)
	ctx.Abort(nil)
	ctx.Abort(ErrPeerDead)
	if !errors.Is(ctx.Err(), ErrAborted) {
		t.Errorf("Err is %v", ctx.Err())
	}
}

// TestCommunicatorsLeaveTheBootstrapAsItWas makes and closes many Communicators on one bootstrap, which stays open.
func TestCommunicatorsLeaveTheBootstrapAsItWas(t *testing.T) {
	b := bootstrap.NewLocalGroup(2)[0]
	defer func() { _ = b.Close() }()
	for range 50 {
		if err := NewCommunicator(b, nil).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := reflect.ValueOf(b).Elem().FieldByName("obituaries").FieldByName("subs").Len(); n != 0 {
		t.Errorf("%d subscriptions to deaths are left", n)
	}
}
