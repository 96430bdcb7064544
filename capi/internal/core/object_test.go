package core

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/primitive"
)

func TestObjectsAreToldApart(t *testing.T) {
	ctx, err := NewContext(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := OpenDevice(device.Host, 0)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := NewEndpoint(ctx, int(primitive.IPC), dev)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := NewConnection(ctx, ep, ep)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSemaphoreStub(ctx); !errors.Is(err, ErrInvalidArgument) ||
		!strings.Contains(err.Error(), "is a context, not a connection") {
		t.Errorf("a context as a connection: %v", err)
	}
	if _, err := DeviceHandle(conn); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("device handle of a connection: %v", err)
	}
	if _, err := Serialize(conn); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a connection as bytes: %v", err)
	}
	if _, err := NewEndpoint(ctx, 77, dev); ResultOf(err) != InvalidArgument {
		t.Errorf("transport 77: %v", err)
	}
	for range 2 {
		if err := CloseObject(ctx); err != nil {
			t.Error(err)
		}
	}
	if err := CloseObject(conn); err != nil { // after the object from which it was made
		t.Error(err)
	}
	if _, err := NewSemaphoreStub(conn); !errors.Is(err, ErrInvalidArgument) ||
		!strings.Contains(err.Error(), "was destroyed") {
		t.Errorf("a closed connection: %v", err)
	}
	if err := CloseObject(12345); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("an invented handle: %v", err)
	}
}

// A future whose wait timed out can be waited for again, and returns the same object each time.
func TestFutureInSlices(t *testing.T) {
	boots, err := LocalBootstraps(2)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := OpenDevice(device.Host, 0)
	if err != nil {
		t.Fatal(err)
	}
	var comms [2]Handle
	for i := range comms {
		ctx, err := NewContext(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = CloseObject(ctx) }()
		if comms[i], err = NewCommunicator(boots[i], ctx); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = CloseObject(comms[i]) }()
	}
	first, err := Connect(comms[0], int(primitive.IPC), dev, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := WaitFuture(first, time.Millisecond); ResultOf(err) != Timeout {
			t.Fatalf("before the peer comes: %v", err)
		}
	}
	second, err := Connect(comms[1], int(primitive.IPC), dev, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []Handle{first, second} {
		a, err := WaitFuture(f, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		b, err := WaitFuture(f, 0)
		if err != nil || a != b || a == 0 {
			t.Errorf("first %#x, then %#x, %v", a, b, err)
		}
	}
	late, err := RecvMemory(comms[0], 1, 5)
	if err != nil {
		t.Fatal(err)
	}
	_ = CloseBootstrap(boots[1])
	if _, err := WaitFuture(late, 10*time.Second); err == nil || ResultOf(err) == InternalError {
		t.Errorf("the peer has left: %v (%v)", err, ResultOf(err))
	}
}

func TestProgramsAreTheCallersMistakes(t *testing.T) {
	for _, doc := range []string{``, `{}`,
		`{"name":"x","collective":"allreduce","ranks":2,"commands":[{"op":"nonsense"}]}`} {
		if _, err := CompileProgram([]byte(doc)); ResultOf(err) != InvalidArgument {
			t.Errorf("%q: %v (%v)", doc, err, ResultOf(err))
		}
	}
	p, err := BuildProgram("no such program", nil)
	if ResultOf(err) != InvalidArgument {
		t.Errorf("%d bytes, %v", len(p), err)
	}
	if _, err := CheckPlan([]byte(`{"name":1}`)); ResultOf(err) != InvalidArgument {
		t.Errorf("%v", err)
	}
}
