package share

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"runtime"
	"testing"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/transport/ipc"
	"github.com/goccl/goccl/transport/wire"
)

func open(t testing.TB) *host.Device {
	t.Helper()
	d, err := host.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func alloc(t testing.TB, d device.Device, size int64) device.Ptr {
	t.Helper()
	a, err := d.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	return a.Ptr()
}

// An encoded descriptor maps to the same memory, once, and the memory is unmapped with its last user.
func TestDescriptorAndMap(t *testing.T) {
	d, other := open(t), open(t)
	p := alloc(t, d, 1<<16)
	desc, revoke, err := Export(d, p.Add(4096))
	if err != nil {
		t.Fatal(err)
	}
	defer revoke()
	var w wire.Writer
	desc.Put(&w)
	r := wire.Open(w.Seal(9, 1), 9, 1)
	got := Get(r)
	if err := r.Done(); err != nil {
		t.Fatal(err)
	}
	before := Mapped()
	a, err := Map(t.Context(), other, &got)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Map(t.Context(), other, &got)
	if err != nil {
		t.Fatal(err)
	}
	if a.Ptr != p.Add(4096) || b.Ptr != a.Ptr || Mapped() != before+1 {
		t.Fatalf("mapped at %#x and %#x, want %#x; %d allocations", uintptr(a.Ptr), uintptr(b.Ptr),
			uintptr(p.Add(4096)), Mapped()-before)
	}
	if err := errors.Join(a.Close(), a.Close()); err != nil || Mapped() != before+1 {
		t.Fatalf("%v, %d left", err, Mapped()-before)
	}
	if err := b.Close(); err != nil || Mapped() != before {
		t.Fatalf("%v, %d left", err, Mapped()-before)
	}
	revoke()
	if _, err := Map(t.Context(), other, &got); err == nil || Mapped() != before {
		t.Fatalf("a revoked export is mapped: %v", err)
	}
}

func TestMemoryThatCannotBeShared(t *testing.T) {
	d := open(t)
	a, err := d.Register(make([]byte, 100))
	if err != nil {
		t.Fatal(err)
	}
	desc, revoke, err := Export(d, a.Ptr())
	if err != nil {
		t.Fatal(err)
	}
	defer revoke()
	desc.Process[0] ^= 1
	if _, err := Map(t.Context(), d, &desc); !errors.Is(err, device.ErrNotShareable) {
		t.Fatal(err)
	}
	desc.Process[0] ^= 1
	desc.Handle.Owner.Kind = device.CUDA
	if _, err := Map(t.Context(), d, &desc); !errors.Is(err, device.ErrUnsupported) {
		t.Fatal(err)
	}
}

// silent returns a descriptor of a process that never answers, for example because it is stopped; its server gets a
// connection for each request.
func silent(t *testing.T, d device.Device) (Descriptor, <-chan net.Conn) {
	t.Helper()
	ticket := make([]byte, 64) // see package fdshare
	copy(ticket, "GCFD\x01")
	copy(ticket[16:32], t.Name())
	l, err := net.Listen("unix", "@goccl-fd-"+hex.EncodeToString(ticket[16:32]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	asked := make(chan net.Conn, 16)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			asked <- c
		}
	}()
	return Descriptor{Handle: device.Handle{Type: device.HandleFD, Owner: d.ID(), FD: -1, Size: 1}, Process: ipc.ID{1},
		Ticket: ticket}, asked
}

// Without a deadline of the caller, the mapping fails at the set-up timeout.
func TestMappingWithoutADeadlineEnds(t *testing.T) {
	t.Setenv("GOCCL_TIMEOUT", "100ms")
	d := open(t)
	desc, _ := silent(t, d)
	before := Mapped()
	if _, err := Map(context.Background(), d, &desc); !errors.Is(err, context.DeadlineExceeded) || Mapped() != before {
		t.Fatal(err)
	}
	t.Setenv("GOCCL_TIMEOUT", "junk")
	if _, err := Map(context.Background(), d, &desc); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

// A caller whose context ends does not fail another one that waits for the same mapping: that one tries itself.
func TestMappingOutlivesAnotherCaller(t *testing.T) {
	d := open(t)
	desc, asked := silent(t, d)
	before := Mapped()
	first, stop := context.WithCancel(t.Context())
	second, end := context.WithCancel(t.Context())
	defer end()
	results := [2]chan error{make(chan error, 1), make(chan error, 1)}
	for i, ctx := range []context.Context{first, second} {
		go func() {
			_, err := Map(ctx, d, &desc)
			results[i] <- err
		}()
		if i == 0 {
			<-asked
		}
	}
	for waiting := 0; waiting < 2; runtime.Gosched() { // the second waits for the first
		cache.mu.Lock()
		for k, e := range cache.entries {
			if k.process == desc.Process {
				waiting = e.refs
			}
		}
		cache.mu.Unlock()
	}
	stop()
	if err := <-results[0]; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	<-asked // the second has begun anew
	end()
	if err := <-results[1]; !errors.Is(err, context.Canceled) || Mapped() != before {
		t.Fatalf("%v, %d left", err, Mapped()-before)
	}
}
