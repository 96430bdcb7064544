package host_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
)

func stream(t testing.TB, d *host.Device) *host.Stream {
	t.Helper()
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	return s.(*host.Stream)
}

func TestStreamOrder(t *testing.T) {
	d := open(t, 0)
	a := alloc(t, d, 4096)
	s := stream(t, d)
	var seen []int
	for i := range 1000 {
		if err := s.Launch("append", 1, func(*host.Block) error { seen = append(seen, i); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Memset(a.Ptr(), 7, 100); err != nil {
		t.Fatal(err)
	}
	if err := s.Copy(a.Ptr().Add(100), a.Ptr(), 100); err != nil {
		t.Fatal(err)
	}
	if err := s.Synchronize(deadline(t)); err != nil {
		t.Fatal(err)
	}
	for i, v := range seen {
		if i != v {
			t.Fatalf("kernel %d ran as number %d", v, i)
		}
	}
	got := make([]byte, 201)
	if err := d.CopyOut(got, a.Ptr()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, append(bytes.Repeat([]byte{7}, 200), 0)) {
		t.Fatalf("memory is %v", got)
	}
}

func TestIdleStreamHasNoGoroutine(t *testing.T) {
	d := open(t, 0)
	before := runtime.NumGoroutine()
	for range 50 {
		s := stream(t, d)
		_ = s.Launch("nothing", 4, func(*host.Block) error { return nil })
		if err := s.Synchronize(deadline(t)); err != nil {
			t.Fatal(err)
		}
	}
	for range 30000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%d goroutines, before it were %d", runtime.NumGoroutine(), before)
}

func TestSynchronizeEndsWithItsContext(t *testing.T) {
	d := open(t, 0)
	s := stream(t, d)
	hold := make(chan struct{})
	_ = s.Launch("hold", 1, func(*host.Block) error { <-hold; return nil })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := s.Synchronize(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	close(hold)
	if err := s.Synchronize(deadline(t)); err != nil {
		t.Error(err)
	}
}

func TestEventsOrderStreamsAndTellTime(t *testing.T) {
	d := open(t, 0)
	s1, s2 := stream(t, d), stream(t, open(t, 1))
	start, _ := s1.Record()
	var done atomic.Bool
	_ = s1.Launch("slow", 1, func(*host.Block) error { time.Sleep(20 * time.Millisecond); done.Store(true); return nil })
	end, _ := s1.Record()
	if _, err := end.Since(start); err == nil {
		t.Error("Since of an event that is not reached")
	}
	_ = s2.WaitEvent(end)
	_ = s2.Launch("after", 1, func(*host.Block) error {
		if !done.Load() {
			return errBoom
		}
		return nil
	})
	if err := s2.Synchronize(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if dt, err := end.Since(start); err != nil || dt < 0.015 || dt > 5 {
		t.Errorf("Since: %v s, %v", dt, err)
	}
}

func TestSynchronousStream(t *testing.T) {
	d := open(t, 0)
	w, err := d.WrapStream(0)
	if err != nil {
		t.Fatal(err)
	}
	s := w.(*host.Stream)
	ran := false
	if err := s.Launch("now", 1, func(*host.Block) error { ran = true; return nil }); err != nil || !ran {
		t.Fatalf("Launch: %v, ran %v", err, ran)
	}
	if err := s.Launch("bad", 2, func(*host.Block) error { return errBoom }); !errors.Is(err, errBoom) {
		t.Errorf("Launch: %v", err)
	}
	if err := s.Synchronize(deadline(t)); !errors.Is(err, errBoom) {
		t.Errorf("Synchronize: %v", err)
	}
}

func TestWrapStreamByNumber(t *testing.T) {
	d := open(t, 0)
	s := stream(t, d)
	w, err := d.WrapStream(s.Raw())
	if err != nil {
		t.Fatal(err)
	}
	var order []int
	_ = s.Launch("a", 1, func(*host.Block) error { order = append(order, 1); return nil })
	_ = w.(*host.Stream).Launch("b", 1, func(*host.Block) error { order = append(order, 2); return nil })
	if err := w.Synchronize(deadline(t)); err != nil || len(order) != 2 || order[0] != 1 {
		t.Fatalf("order %v, %v", order, err)
	}
	_ = w.Close()
	if err := s.Launch("c", 1, func(*host.Block) error { return nil }); err != nil {
		t.Errorf("closing the wrapper closed the stream: %v", err)
	}
	_ = s.Close()
	if err := s.Launch("d", 1, func(*host.Block) error { return nil }); !errors.Is(err, device.ErrClosed) {
		t.Errorf("launch after Close: %v", err)
	}
	if _, err := d.WrapStream(s.Raw()); err == nil {
		t.Error("wrapped a closed stream")
	}
}

func TestMemset(t *testing.T) {
	d := open(t, 0)
	const size = 600 << 10
	a := alloc(t, d, size)
	s := stream(t, d)
	for _, n := range []int64{0, 1, 2, 3, 1000, size - 5} {
		_ = s.Memset(a.Ptr(), 0, size)
		_ = s.Memset(a.Ptr().Add(5), 0xa5, n)
		if err := s.Synchronize(deadline(t)); err != nil {
			t.Fatal(err)
		}
		want := make([]byte, size)
		for i := range n {
			want[5+i] = 0xa5
		}
		if !bytes.Equal(device.Bytes(a.Ptr(), size), want) {
			t.Errorf("%d bytes: wrong", n)
		}
	}
	if err := s.Memset(a.Ptr(), 1, -1); err == nil {
		t.Error("a negative size was accepted")
	}
}

// A verdict tells work of the user before an operation from a process that gets no processor.
func TestRunningNamesTheWorkOfAStream(t *testing.T) {
	d := open(t, 0)
	s := stream(t, d)
	begun, release := make(chan struct{}), make(chan struct{})
	if err := s.Launch("mine", 1, func(*host.Block) error {
		close(begun)
		<-release
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	<-begun
	if name, ok := d.Running(s.Raw()); name != "mine" || !ok {
		t.Errorf("it runs %q, %v", name, ok)
	}
	close(release)
	if err := s.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if name, ok := d.Running(s.Raw()); name != "" || !ok {
		t.Errorf("an idle stream runs %q, %v", name, ok)
	}
	if _, ok := d.Running(0); ok {
		t.Error("a synchronous stream is none")
	}
}
