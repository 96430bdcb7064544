package core

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/primitive"
)

func TestObjectsAreToldApart(t *testing.T) {
	ctx, err := Add(ContextCreate(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	dev, err := deviceOf(0)
	if err != nil {
		t.Fatal(err)
	}
	of, err := Find[*primitive.Context](ctx)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := EndpointCreate(of, int(primitive.IPC), dev)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := Add(ConnectionCreate(of, ep, ep))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Find[*primitive.Connection](ctx); !errors.Is(err, ErrInvalidArgument) ||
		!strings.Contains(err.Error(), "is a context, not a connection") {
		t.Errorf("a context as a connection: %v", err)
	}
	if _, err := ObjectDeviceHandle(conn); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("device handle of a connection: %v", err)
	}
	if _, err := ObjectSerialize(conn); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a connection as bytes: %v", err)
	}
	if _, err := EndpointCreate(of, 77, dev); ResultOf(err) != InvalidArgument {
		t.Errorf("transport 77: %v", err)
	}
	for range 2 {
		if err := ObjectClose(ctx); err != nil {
			t.Error(err)
		}
	}
	if err := ObjectClose(conn); err != nil { // after the object from which it was made
		t.Error(err)
	}
	if _, err := Find[*primitive.Connection](conn); !errors.Is(err, ErrInvalidArgument) ||
		!strings.Contains(err.Error(), "was destroyed") {
		t.Errorf("a closed connection: %v", err)
	}
	if err := ObjectClose(12345); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("an invented handle: %v", err)
	}
}

// A future whose wait timed out can be waited for again, and returns the same object each time.
func TestFutureInSlices(t *testing.T) {
	boots, err := BootstrapLocal(2)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := deviceOf(0)
	if err != nil {
		t.Fatal(err)
	}
	var comms [2]*primitive.Communicator
	for i := range comms {
		ctx, err := ContextCreate(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ctx.Close() }()
		boot, err := Find[*Bootstrap](boots[i])
		if err != nil {
			t.Fatal(err)
		}
		if comms[i], err = CommunicatorCreate(boot, ctx); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = comms[i].Close() }()
	}
	first, err := CommunicatorConnect(comms[0], int(primitive.IPC), dev, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := FutureWait(within(t, time.Millisecond), first); ResultOf(err) != Timeout {
			t.Fatalf("before the peer comes: %v", err)
		}
	}
	second, err := CommunicatorConnect(comms[1], int(primitive.IPC), dev, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*Future{first, second} {
		a, err := FutureWait(within(t, 10*time.Second), f)
		if err != nil {
			t.Fatal(err)
		}
		b, err := FutureWait(within(t, 0), f)
		if err != nil || a != b || a == 0 {
			t.Errorf("first %#x, then %#x, %v", a, b, err)
		}
	}
	late := Later(comms[0].RecvMemory(1, 5))
	_ = BootstrapClose(boots[1])
	if _, err := FutureWait(within(t, 10*time.Second), late); err == nil || ResultOf(err) == InternalError {
		t.Errorf("the peer has left: %v (%v)", err, ResultOf(err))
	}
}

func TestProgramsAreTheCallersMistakes(t *testing.T) {
	for _, doc := range []string{``, `{}`,
		`{"name":"x","collective":"allreduce","ranks":2,"commands":[{"op":"nonsense"}]}`} {
		if _, err := PlanCompile([]byte(doc)); ResultOf(err) != InvalidArgument {
			t.Errorf("%q: %v (%v)", doc, err, ResultOf(err))
		}
	}
	p, err := PlanBuild("no such program", nil)
	if ResultOf(err) != InvalidArgument {
		t.Errorf("%d bytes, %v", len(p), err)
	}
	if _, err := PlanCheck([]byte(`{"name":1}`)); ResultOf(err) != InvalidArgument {
		t.Errorf("%v", err)
	}
}
