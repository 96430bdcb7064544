package primitive

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
)

// TestCloseWhileTheHostWaits closes a Context during a wait that starts, is woken, or is given up at that moment.
func TestCloseWhileTheHostWaits(t *testing.T) {
	dev, far := open(t, 0), open(t, 1)
	for i := range 100 {
		c := NewContext()
		here, there := must[*Endpoint](t)(c.CreateEndpoint(EndpointConfig{Transport: IPC, Device: dev})),
			must[*Endpoint](t)(c.CreateEndpoint(EndpointConfig{Transport: IPC, Device: far}))
		conn := must[*Connection](t)(c.Connect(here, there))
		stub := must[*SemaphoreStub](t)(NewSemaphoreStub(conn))
		h := must[*Host2HostSemaphore](t)(NewHost2HostSemaphore(must[*Semaphore](t)(NewSemaphore(stub, stub))))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- h.Wait(ctx) }()
		if i%2 == 0 {
			waiting(t, c, 1)
			go cancel()
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, ErrClosed) && (i%2 != 0 || !errors.Is(err, context.Canceled)) {
			t.Fatal(err)
		}
		cancel()
	}
}

// TestContextWaitsForAProxyThatIsClosing closes a proxy and its Context while the handler still runs.
func TestContextWaitsForAProxyThatIsClosing(t *testing.T) {
	c, dev := NewContext(), open(t, 0)
	begun, end := make(chan struct{}), make(chan struct{})
	p := must[*Proxy](t)(NewProxy(c, dev, func(Trigger, uint64) error {
		close(begun)
		<-end
		return nil
	}, ProxyOptions{}))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	h := p.Fifo().DeviceHandle()
	if _, s := h.Push(Trigger{Type: TriggerFlag}); s != StatusOK {
		t.Fatal(s)
	}
	<-begun
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- p.Close() }()
	for p.Start() == nil { // until Close has begun
		time.Sleep(time.Millisecond)
	}
	go func() { second <- c.Close() }()
	select {
	case err := <-first:
		t.Fatal("the proxy is closed while its handler runs", err)
	case err := <-second:
		t.Fatal("the Context is closed while the handler of a proxy runs", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(end)
	if err := errors.Join(<-first, <-second, p.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestAPeerOfThisProcessMayCloseFirst uses memory and a semaphore of a Context that is closed, and whose device is
// closed, too. Between processes a mapping outlives the owner's close; within a process it must, too.
func TestAPeerOfThisProcessMayCloseFirst(t *testing.T) {
	a, b := newContext(t), newContext(t)
	x, y := pair(t, IPC, a, b)
	mine, in := x.memory(t, 64, Flags(IPC))
	theirs, _ := y.memory(t, 64, Flags(IPC))
	remote := x.receive(t, theirs)
	in[0] = 7
	write := func() error { return x.conn.Write(remote, 32, mine, 0, 8) }
	signal := NewHost2DeviceSemaphore(x.sema).Signal
	if err := errors.Join(write(), signal()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Close(), y.dev.(interface{ Close() error }).Close()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(write(), signal()); err != nil {
		t.Fatal(err)
	}
	if got := device.Bytes(remote.Data(), 64)[32]; got != 7 {
		t.Errorf("the byte is %d", got)
	}
}
