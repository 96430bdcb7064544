package primitive

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/test/testutil"
)

func TestABadTriggerAbortsAndNamesTheReason(t *testing.T) {
	ctx := newContext(t)
	x, y := pair(t, IPC, ctx, ctx)
	src, _ := x.memory(t, 4096, Flags(IPC))
	dst, out := y.memory(t, 4096, Flags(IPC))
	service := must[*ProxyService](t)(NewProxyService(ctx, x.dev, ProxyOptions{}))
	to, from := must[MemoryID](t)(service.AddMemory(x.receive(t, dst))), must[MemoryID](t)(service.AddMemory(src))
	id := must[SemaphoreID](t)(service.AddSemaphore(x.sema))
	h := must[*PortChannel](t)(service.PortChannel(id, to, from)).DeviceHandle()
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	if s := h.PutWithSignalAndFlush(4000, 0, 97); s != StatusAborted {
		t.Fatalf("a put past the end: %v", s)
	}
	var e *Error
	if err := ctx.Err(); !errors.Is(err, ErrInvalid) || !errors.As(err, &e) || e.Peer != 1 {
		t.Fatal(err)
	}
	if !bytes.Equal(out, make([]byte, len(out))) {
		t.Fatal("something was written")
	}
	if err := service.Stop(); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	ctx.Recover()
	if s := h.Put(1<<48, 0, 1); s != StatusInvalid {
		t.Fatalf("an offset beyond the encoding: %v", s)
	}
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	if s := h.PutWithSignalAndFlush(0, 0, 96); s != StatusOK {
		t.Fatalf("after Recover: %v %v", s, ctx.Err())
	}
}

func TestCustomProxyHandler(t *testing.T) {
	ctx := newContext(t)
	dev := open(t, 0)
	var got []Trigger
	p := must[*Proxy](t)(NewProxy(ctx, dev, func(t Trigger, pos uint64) error {
		if pos != uint64(len(got)) {
			return fmt.Errorf("position %d, want %d", pos, len(got))
		}
		got = append(got, t)
		return nil
	}, ProxyOptions{FifoSize: 3}))
	if p.Fifo().Size() != 4 {
		t.Fatal(p.Fifo().Size())
	}
	h := p.Fifo().DeviceHandle()
	// Pushed before Start and executed after it; Stop drains the FIFO.
	for i := range 4 {
		if pos, s := h.Push(Trigger{Type: 1 << 7, Size: uint64(i)}); s != StatusOK || h.Poll(pos) {
			t.Fatal(pos, s)
		}
	}
	for range 3 {
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		pos, s := h.Push(Trigger{Type: 1 << 7, Size: 99})
		if s != StatusOK {
			t.Fatal(s)
		}
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		if s := h.Sync(pos); s != StatusOK {
			t.Fatal(s)
		}
	}
	if len(got) != 7 || got[2].Size != 2 || got[6].Type != 1<<7 {
		t.Fatalf("%+v", got)
	}
}

func cpuTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestAnIdleProxyBurnsNoCore(t *testing.T) {
	ctx := newContext(t)
	dev := open(t, 0)
	s := must[*ProxyService](t)(NewProxyService(ctx, dev, ProxyOptions{}))
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	// A garbage collection, caused by another test, must not count as the proxy's CPU time.
	testutil.Prompt(t, 60*time.Millisecond, func() time.Duration {
		before := cpuTime(t)
		time.Sleep(300 * time.Millisecond)
		return cpuTime(t) - before
	})
}
