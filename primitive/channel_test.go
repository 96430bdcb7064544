package primitive

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
)

// held lists the open resources of a test; contexts are closed before the devices they use.
type held struct {
	contexts []*Context
	devices  []*host.Device
}

var tests sync.Map // testing.TB → *held

func hold(t testing.TB) *held {
	h, known := tests.LoadOrStore(t, &held{})
	r := h.(*held)
	if !known {
		t.Cleanup(func() {
			tests.Delete(t)
			for _, c := range r.contexts {
				if err := c.Close(); err != nil {
					t.Errorf("close the context: %v", err)
				}
			}
			for _, d := range r.devices {
				if err := d.Close(); err != nil {
					t.Errorf("close the device: %v", err)
				}
			}
		})
	}
	return r
}

// open opens a host device that is closed at the end of the test.
func open(t testing.TB, index int) *host.Device {
	t.Helper()
	d, err := host.Open(index)
	if err != nil {
		t.Fatal(err)
	}
	h := hold(t)
	h.devices = append(h.devices, d)
	return d
}

func newContext(t testing.TB, opts ...ContextOption) *Context {
	t.Helper()
	c := NewContext(append([]ContextOption{WithTimeout(5 * time.Second)}, opts...)...)
	h := hold(t)
	h.contexts = append(h.contexts, c)
	return c
}

func must[T any](t testing.TB) func(v T, err error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// side is one end of a pair in one process.
type side struct {
	ctx  *Context
	dev  device.Device
	ep   *Endpoint
	conn *Connection
	stub *SemaphoreStub
	sema *Semaphore
}

// pair connects two sides; everything that a peer would receive passes through its serialised form.
func pair(t testing.TB, transport Transport, a, b *Context) (x, y *side) {
	t.Helper()
	x, y = &side{ctx: a, dev: open(t, 0)}, &side{ctx: b, dev: open(t, 1)}
	for _, s := range []*side{x, y} {
		s.ep = must[*Endpoint](t)(s.ctx.CreateEndpoint(EndpointConfig{Transport: transport, Device: s.dev}))
	}
	join := func(s, o *side) {
		s.conn = must[*Connection](t)(s.ctx.Connect(s.ep, must[*Endpoint](t)(DeserializeEndpoint(o.ep.Serialize()))))
		s.stub = must[*SemaphoreStub](t)(NewSemaphoreStub(s.conn))
	}
	join(x, y)
	join(y, x)
	x.conn.SetPeer(1)
	y.conn.SetPeer(0)
	finish := func(s, o *side) {
		remote := must[*SemaphoreStub](t)(s.ctx.DeserializeSemaphoreStub(must[[]byte](t)(o.stub.Serialize())))
		s.sema = must[*Semaphore](t)(NewSemaphore(s.stub, remote))
	}
	finish(x, y)
	finish(y, x)
	return x, y
}

// memory returns zeroed, registered memory of a side.
func (s *side) memory(t testing.TB, size int64, flags TransportFlags) (*RegisteredMemory, []byte) {
	t.Helper()
	a := must[device.Allocation](t)(s.dev.Alloc(size))
	return must[*RegisteredMemory](t)(s.ctx.RegisterMemory(s.dev, a.Ptr(), size, flags)), device.Bytes(a.Ptr(), size)
}

// receive returns m as the other side deserialises it.
func (s *side) receive(t testing.TB, m *RegisteredMemory) *RegisteredMemory {
	t.Helper()
	return must[*RegisteredMemory](t)(s.ctx.DeserializeMemory(must[[]byte](t)(m.Serialize())))
}

func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*31 + seed + i>>8)
	}
}

func TestPingPong(t *testing.T) {
	ctx := newContext(t)
	x, y := pair(t, IPC, ctx, ctx)
	a := must[*BaseMemoryChannel](t)(NewBaseMemoryChannel(x.sema)).DeviceHandle()
	b := must[*BaseMemoryChannel](t)(NewBaseMemoryChannel(y.sema)).DeviceHandle()
	const n = 1000
	done := make(chan Status, 1)
	go func() {
		for range n {
			if s := a.RelaxedWait(); s != StatusOK {
				done <- s
				return
			}
			a.RelaxedSignal()
		}
		done <- StatusOK
	}()
	for i := range n {
		b.Signal()
		if s := b.Wait(); s != StatusOK {
			t.Fatalf("round %d: %v", i, s)
		}
	}
	if s := <-done; s != StatusOK {
		t.Fatal(s)
	}
	if a.Poll() || b.Poll() {
		t.Error("a signal is left over")
	}
	a.Signal()
	if !b.Poll() || b.Poll() {
		t.Error("one signal must be polled once")
	}
}

func TestMemoryChannelMovesBytes(t *testing.T) {
	ca, cb := newContext(t), newContext(t)
	x, y := pair(t, IPC, ca, cb)
	const size = 100003
	srcX, bx := x.memory(t, size, Flags(IPC))
	srcY, by := y.memory(t, size, Flags(IPC))
	fill(bx, 1)
	a := must[*MemoryChannel](t)(NewMemoryChannel(x.sema, x.receive(t, srcY), srcX, nil)).DeviceHandle()
	b := must[*MemoryChannel](t)(NewMemoryChannel(y.sema, y.receive(t, srcX), srcY, nil)).DeviceHandle()
	const threads = 3
	for tid := range threads {
		a.Put(7, 3, size-7, tid, threads)
	}
	a.Signal()
	if s := b.Wait(); s != StatusOK {
		t.Fatal(s)
	}
	if !bytes.Equal(by[7:], bx[3:size-4]) {
		t.Fatal("put")
	}
	clear(by)
	for tid := range threads {
		b.Get(1, 0, size-1, tid, threads)
	}
	if !bytes.Equal(by[:size-1], bx[1:]) {
		t.Fatal("get")
	}
	Write(&a, 5, float32(2.5))
	if Read[float32](&a, 5) != 2.5 {
		t.Fatal("element")
	}
	a.PutWithSignal(0, 0, 16)
	if s := b.Wait(); s != StatusOK || !bytes.Equal(by[:16], bx[:16]) {
		t.Fatal("putWithSignal", s)
	}
}

func TestPackets(t *testing.T) {
	ctx := newContext(t)
	x, y := pair(t, IPC, ctx, ctx)
	for _, p := range []Packet{LL16, LL8, LL128} {
		for _, size := range []int64{1, 4, 7, 8, 119, 120, 121, 4096, 10001} {
			src, in := x.memory(t, size+3, Flags(IPC))
			dst, out := y.memory(t, size+3, Flags(IPC))
			buffer, _ := y.memory(t, p.BufferSize(size), Flags(IPC))
			other, _ := x.memory(t, 64, Flags(IPC))
			a := must[*MemoryChannel](t)(NewMemoryChannel(x.sema, x.receive(t, buffer), src, nil)).DeviceHandle()
			b := must[*MemoryChannel](t)(NewMemoryChannel(y.sema, y.receive(t, other), dst, buffer)).DeviceHandle()
			for flag := uint32(1); flag <= 3; flag++ {
				fill(in, int(flag))
				clear(out)
				const threads = 2
				go func() {
					for tid := range threads {
						a.PutPackets(p, 0, 3, size, tid, threads, flag)
					}
				}()
				for tid := range threads {
					if s := b.UnpackPackets(p, 0, 1, size, tid, threads, flag); s != StatusOK {
						t.Fatal(s)
					}
				}
				if !bytes.Equal(out[1:1+size], in[3:]) || out[0] != 0 || out[1+size] != 0 {
					t.Fatalf("%v, %d bytes, flag %d: wrong payload", p, size, flag)
				}
			}
		}
	}
}

// waiting returns when n kernels and host callers wait in c. A kernel that started after Close would read unmapped
// memory.
func waiting(t testing.TB, c *Context, n uint32) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); c.abort.Active.Load() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d wait, want %d", c.abort.Active.Load(), n)
		}
	}
}

func TestAbortEndsWaitsAndTheContextStaysUsable(t *testing.T) {
	ctx := newContext(t)
	x, y := pair(t, IPC, ctx, ctx)
	h := must[*BaseMemoryChannel](t)(NewBaseMemoryChannel(x.sema)).DeviceHandle()
	peer := must[*BaseMemoryChannel](t)(NewBaseMemoryChannel(y.sema)).DeviceHandle()
	done := make(chan Status, 1)
	go func() { done <- h.Wait() }()
	waiting(t, ctx, 1)
	cause := failure("test", 0, 3, ErrPeerDead)
	ctx.Abort(cause)
	select {
	case s := <-done:
		if s != StatusPeerDead || !errors.Is(s.Err(), ErrPeerDead) {
			t.Fatal(s)
		}
	case <-time.After(time.Minute):
		t.Fatal("the wait goes on")
	}
	var e *Error
	if err := ctx.Err(); !errors.As(err, &e) || e.Peer != 3 || !errors.Is(err, ErrPeerDead) {
		t.Fatal(err)
	}
	ctx.Recover()
	if err := ctx.Err(); err != nil {
		t.Fatal(err)
	}
	peer.Signal()
	if s := h.Wait(); s != StatusOK {
		t.Fatalf("after Recover: %v", s)
	}
}

func TestSpinLimitNamesThePeer(t *testing.T) {
	ctx := newContext(t, WithSpinLimit(20*time.Millisecond))
	ctx.SetRank(0)
	x, y := pair(t, IPC, ctx, ctx)
	_ = y
	h := must[*BaseMemoryChannel](t)(NewBaseMemoryChannel(x.sema)).DeviceHandle()
	if s := h.Wait(); s != StatusTimeout {
		t.Fatal(s)
	}
	var e *Error
	if err := ctx.Err(); !errors.As(err, &e) || e.Rank != 0 || e.Peer != 1 || !errors.Is(err, ErrTimeout) {
		t.Fatalf("%v", err)
	}
}

// TestFlushNamesThePeer flushes a port channel whose service does not run.
func TestFlushNamesThePeer(t *testing.T) {
	ctx := newContext(t, WithSpinLimit(20*time.Millisecond))
	ctx.SetRank(0)
	x, _ := pair(t, IPC, ctx, ctx)
	service := must[*ProxyService](t)(NewProxyService(ctx, x.dev, ProxyOptions{}))
	id := must[SemaphoreID](t)(service.AddSemaphore(x.sema))
	h := must[*BasePortChannel](t)(service.BasePortChannel(id)).DeviceHandle()
	if s := h.Flush(); s != StatusTimeout {
		t.Fatal(s)
	}
	var e *Error
	if err := ctx.Err(); !errors.As(err, &e) || e.Rank != 0 || e.Peer != 1 || !errors.Is(err, ErrTimeout) {
		t.Fatalf("%v", err)
	}
	service.RemoveSemaphore(id)
	if err := ctx.Err(); !errors.As(err, &e) || e.Peer != NoRank {
		t.Fatalf("after the semaphore has gone: %v", err)
	}
	if err := service.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCloseEndsAWait(t *testing.T) {
	c := NewContext()
	x, _ := pair(t, IPC, c, c)
	h := must[*BaseMemoryChannel](t)(NewBaseMemoryChannel(x.sema)).DeviceHandle()
	done := make(chan Status, 1)
	go func() { done <- h.Wait() }()
	waiting(t, c, 1)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-done:
		if s != StatusClosed {
			t.Fatal(s)
		}
	case <-time.After(time.Minute):
		t.Fatal("the wait goes on")
	}
	if _, err := c.CreateEndpoint(EndpointConfig{Transport: IPC, Device: x.dev}); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal("second close:", err)
	}
}
