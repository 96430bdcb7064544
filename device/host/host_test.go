package host_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/wait"
)

func open(t testing.TB, index int) *host.Device {
	t.Helper()
	d, err := host.Open(index)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var errBoom = errors.New("boom")

func TestFirstErrorSticks(t *testing.T) {
	d := open(t, 0)
	s := stream(t, d)
	gate := make(chan struct{})
	_ = s.Launch("bad", 1, func(*host.Block) error { <-gate; return errBoom })
	ran := false
	_ = s.Launch("behind", 1, func(*host.Block) error { ran = true; return nil })
	e, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	close(gate)
	err = s.Synchronize(deadline(t))
	var ke *host.KernelError
	if !errors.Is(err, errBoom) || !errors.As(err, &ke) || ke.Kernel != "bad" {
		t.Fatalf("Synchronize: %v", err)
	}
	if ran {
		t.Error("work behind the failure ran")
	}
	if err := e.Wait(deadline(t)); !errors.Is(err, errBoom) {
		t.Errorf("event behind the failure: %v", err)
	}
	other := stream(t, d)
	_ = other.WaitEvent(e)
	if err := other.Synchronize(deadline(t)); !errors.Is(err, errBoom) {
		t.Errorf("stream that waits for it: %v", err)
	}
	if err := s.Launch("later", 1, func(*host.Block) error { return nil }); !errors.Is(err, errBoom) {
		t.Errorf("launch on a failed stream: %v", err)
	}
	if err := s.ClearError(); !errors.Is(err, errBoom) {
		t.Errorf("ClearError: %v", err)
	}
	_ = s.Launch("again", 1, func(*host.Block) error { ran = true; return nil })
	if err := s.Synchronize(deadline(t)); err != nil || !ran {
		t.Errorf("after ClearError: %v, ran %v", err, ran)
	}
}

func TestPanicFaultAndExitBecomeErrors(t *testing.T) {
	d := open(t, 0)
	for name, k := range map[string]func(*host.Block) error{
		"panic": func(*host.Block) error { panic(errBoom) },
		"fault": func(*host.Block) error { device.Bytes(0x123456000, 8)[0]++; return nil },
		"exit":  func(*host.Block) error { runtime.Goexit(); return nil },
	} {
		for _, blocks := range []int{1, 3} {
			s := stream(t, d)
			_ = s.Launch(name, blocks, k)
			err := s.Synchronize(deadline(t))
			if err == nil || !strings.Contains(err.Error(), name) && name != "exit" {
				t.Errorf("%s, %d blocks: %v", name, blocks, err)
			}
			if name == "panic" && !errors.Is(err, errBoom) {
				t.Errorf("%s: %v does not wrap the value", name, err)
			}
			if err := s.ClearError(); err == nil {
				t.Errorf("%s: the error was not kept for ClearError", name)
			}
			ran := false
			_ = s.Launch("after", 1, func(*host.Block) error { ran = true; return nil })
			if err := s.Synchronize(deadline(t)); err != nil || !ran {
				t.Errorf("after %s: %v", name, err)
			}
		}
	}
	if err := d.CopyIn(0x123456000, []byte{1}); err == nil {
		t.Error("CopyIn to nowhere succeeded")
	}
}

func TestBlocksAndBarrier(t *testing.T) {
	d := open(t, 0)
	s := stream(t, d)
	const blocks, rounds = 6, 200
	var sum [rounds]atomic.Int64
	_ = s.Launch("rounds", blocks, func(b *host.Block) error {
		for i := range rounds {
			sum[i].Add(int64(b.Index))
			if err := b.Barrier(); err != nil {
				return err
			}
			if got := sum[i].Load(); got != blocks*(blocks-1)/2 {
				t.Errorf("block %d passed barrier %d with sum %d", b.Index, i, got)
			}
		}
		return nil
	})
	if err := s.Synchronize(deadline(t)); err != nil {
		t.Fatal(err)
	}
}

func TestBrokenBarrierEnds(t *testing.T) {
	d := open(t, 0)
	for name, first := range map[string]error{"fails": errBoom, "returns": nil} {
		s := stream(t, d)
		_ = s.Launch(name, 3, func(b *host.Block) error {
			if b.Index == 1 {
				time.Sleep(5 * time.Millisecond)
				return first
			}
			return b.Barrier()
		})
		want := first
		if want == nil {
			want = host.ErrBarrier
		}
		if err := s.Synchronize(deadline(t)); !errors.Is(err, want) {
			t.Errorf("block 1 %s: %v, want %v", name, err, want)
		}
	}
}

func TestDeviceCloseFreesAllAfterTheLastKernel(t *testing.T) {
	fds, maps := openFDs(t), sharedMappings(t)
	d, err := host.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	a := alloc(t, d, 1<<20)
	s := stream(t, d)
	started := make(chan struct{})
	_ = s.Launch("until abort", 1, func(b *host.Block) error {
		close(started)
		var c wait.Cell
		err := c.WaitAtLeast(1, wait.Limit{Abort: b.Abort}, nil)
		time.Sleep(5 * time.Millisecond)
		device.Bytes(a.Ptr(), 1)[0] = 1 // still mapped
		return err
	})
	e, _ := s.Record()
	<-started
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Synchronize(deadline(t)); !errors.Is(err, wait.ErrAborted) {
		t.Errorf("kernel during Close: %v", err)
	}
	if err := e.Wait(deadline(t)); err == nil {
		t.Error("event behind the aborted kernel reports success")
	}
	for range 1000 {
		if openFDs(t) == fds && sharedMappings(t) == maps {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if f, m := openFDs(t), sharedMappings(t); f != fds || m != maps {
		t.Errorf("%d descriptors and %d mappings, before it were %d and %d", f, m, fds, maps)
	}
	if _, err := d.Alloc(1); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Alloc after Close: %v", err)
	}
	if _, err := d.Export(a.Ptr()); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Export after Close: %v", err)
	}
}

// Repeated opening and closing must leak nothing.
func TestNothingLeaks(t *testing.T) {
	cycle := func() {
		d0, d1 := open(t, 0), open(t, 1)
		a := alloc(t, d0, 3<<20)
		h, err := d0.Export(a.Ptr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d1.Import(h); err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(h.FD)
		s := stream(t, d0)
		_ = s.Memset(a.Ptr(), 1, a.Size())
		e, err := s.Record()
		if err != nil {
			t.Fatal(err)
		}
		s1 := stream(t, d1)
		_ = s1.WaitEvent(e)
		if err := s1.Synchronize(deadline(t)); err != nil {
			t.Fatal(err)
		}
		_, _ = d0.Close(), d1.Close()
	}
	cycle()
	fds, maps, goroutines := openFDs(t), sharedMappings(t), runtime.NumGoroutine()
	for range 100 {
		cycle()
	}
	for range 30000 {
		// less: what earlier tests left is gone
		if runtime.NumGoroutine() <= goroutines && openFDs(t) <= fds && sharedMappings(t) <= maps {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d descriptors, %d mappings, %d goroutines; before it were %d, %d, %d", openFDs(t), sharedMappings(t),
		runtime.NumGoroutine(), fds, maps,
		goroutines)
}
