package primitive

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/transport/ib"
)

// transports are those that tests can use here. `make rdma` runs the tests in a virtual machine with an adapter.
func transports() []Transport {
	if nics, err := ib.New(ib.Options{IB: setting.DefaultIB}).NICs(); err == nil && len(nics) > 0 {
		return []Transport{IPC, Ethernet, IB0}
	}
	return []Transport{IPC, Ethernet}
}

func needRDMA(t *testing.T) {
	t.Helper()
	if len(transports()) < 3 {
		t.Skip("this host has no RDMA adapter; make rdma runs this test in a virtual machine")
	}
}

// TestWithoutRDMA expects an error that names the missing library or adapter.
func TestWithoutRDMA(t *testing.T) {
	if len(transports()) > 2 {
		t.Skip("this host has RDMA adapters")
	}
	_, err := newContext(t).CreateEndpoint(EndpointConfig{Transport: IB5, Device: open(t, 0)})
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "ib5") {
		t.Error(err)
	}
}

// TestRDMAOptions gives the adapter's options to its first endpoint.
func TestRDMAOptions(t *testing.T) {
	needRDMA(t)
	x, y, dev := newContext(t), newContext(t), open(t, 0)
	cfg := EndpointConfig{Transport: IB0, Device: dev, RDMA: RDMAConfig{Port: 1, GIDIndex: 1, SendDepth: 16,
		ReceiveDepth: 16}}
	must[*Endpoint](t)(x.CreateEndpoint(cfg))
	must[*Endpoint](t)(x.CreateEndpoint(EndpointConfig{Transport: IB0, Device: dev}))
	cfg.RDMA.SendDepth = 32
	if _, err := x.CreateEndpoint(cfg); !errors.Is(err, ErrInvalid) {
		t.Errorf("an endpoint of the same adapter with other options: %v", err)
	}
	cfg.RDMA.Port = 9
	if _, err := y.CreateEndpoint(cfg); err == nil || !strings.Contains(err.Error(), "port 9") {
		t.Errorf("port 9: %v", err)
	}
	cfg.Transport = IB7
	if _, err := y.CreateEndpoint(cfg); err == nil || !strings.Contains(err.Error(), "rxe0") {
		t.Errorf("an adapter that is not there: %v", err)
	}
}

// TestRDMARefused writes to memory whose registration has ended: both Contexts are aborted, with errors that name the
// connection, and waits of kernels end.
func TestRDMARefused(t *testing.T) {
	needRDMA(t)
	a, b := newContext(t), newContext(t)
	x, y := pair(t, IB0, a, b)
	cx := x.conn
	src, _ := x.memory(t, 4096, Flags(IB0))
	dst, _ := y.memory(t, 4096, Flags(IB0))
	there := x.receive(t, dst)
	if err := cx.Write(there, 0, src, 0, 4096); err != nil {
		t.Fatal(err)
	}
	if err := cx.Flush(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan Status, 2) // as kernels wait
	for _, s := range []*side{x, y} {
		h := s.sema.DeviceHandle()
		go func() { waiting <- h.Wait() }()
	}
	if err := dst.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cx.Write(there, 0, src, 0, 4096) // the error may come at once or later
	for name, s := range map[string]*Context{"the writer": a, "the owner": b} {
		select {
		case <-s.Aborted():
			if err := s.Err(); !errors.Is(err, ErrPeerDead) || !strings.Contains(err.Error(), "ib0") {
				t.Errorf("%s: %v", name, err)
			}
			t.Log(s.Err())
		case <-time.After(time.Minute):
			t.Errorf("%s is not aborted", name)
		}
	}
	for range 2 {
		if s := <-waiting; s != StatusPeerDead {
			t.Errorf("a waiting kernel gets %v", s)
		}
	}
	if err := cx.Flush(10 * time.Second); err == nil {
		t.Error("a flush of a broken connection succeeds")
	}
}
