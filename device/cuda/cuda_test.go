package cuda

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
)

func TestAllocIsZeroedAndCopies(t *testing.T) {
	d := open(t, 0)
	for _, size := range []int64{1, 4097, 2 << 20, 5<<20 + 3} {
		a, err := d.Alloc(size)
		if err != nil {
			t.Fatal(err)
		}
		if a.Size() < size || uintptr(a.Ptr())%4096 != 0 {
			t.Errorf("Alloc(%d): %d bytes at %#x", size, a.Size(), a.Ptr())
		}
		got := bytes.Repeat([]byte{0xff}, int(size))
		if err := d.CopyOut(got, a.Ptr()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, make([]byte, size)) {
			t.Errorf("Alloc(%d) is not zero", size)
		}
		want := pattern(int(size), 3)
		if err := errors.Join(d.CopyIn(a.Ptr(), want), d.CopyOut(got, a.Ptr())); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes do not come back", size)
		}
		if err := errors.Join(a.Close(), a.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestAllocFailures(t *testing.T) {
	d := open(t, 0)
	before := fds(t)
	_, err := d.Alloc(1 << 44)
	if !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("Alloc(16 TiB): %v", err)
	}
	mustContain(t, err, "cuda:0", "alloc", "cuMemCreate", "nvidia-smi")
	var e *Error
	if !errors.As(err, &e) || e.Device != d.ID() {
		t.Errorf("%T", err)
	}
	for _, n := range []int64{0, -1} {
		if _, err := d.Alloc(n); err == nil {
			t.Errorf("Alloc(%d) succeeds", n)
		}
	}
	if _, err := d.HostAlloc(0); err == nil {
		t.Error("HostAlloc(0) succeeds")
	}
	if now := fds(t); mocked && now != before {
		t.Errorf("%d descriptors before, %d after", before, now)
	}
}

func TestOpenFailures(t *testing.T) {
	open(t, 0)
	n, _ := Count()
	for _, o := range []int{-1, n, 1000} {
		_, err := Open(o)
		if !errors.Is(err, device.ErrNoDevice) {
			t.Errorf("Open(%d): %v", o, err)
		}
		mustContain(t, err, "CUDA_VISIBLE_DEVICES")
	}
}

func TestCloseEndsEverything(t *testing.T) {
	d := open(t, 0) // its cleanup counts leaked objects
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.Alloc(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.AllocLegacy(100); err != nil {
		t.Fatal(err)
	}
	if _, err := d.HostAlloc(100); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Record(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.LoadModule([]byte(testPTX)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Close(), d.Close(), a.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Alloc(1); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Alloc after Close: %v", err)
	}
	if err := s.Memset(a.Ptr(), 0, 1); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Memset after Close: %v", err)
	}
}

// A Device with a busy stream keeps its memory, because a kernel may still use it. Once the stream is idle, Close
// succeeds.
func TestCloseWhileBusy(t *testing.T) {
	keeper := open(t, 0)
	gate, err := keeper.HostAlloc(64)
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, 0)
	a, err := d.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := d.NewStreamPriority(0)
	if err := errors.Join(s.WaitValue64(gate.Ptr(), 1), s.Memset(a.Ptr(), 9, 64)); err != nil {
		t.Fatal(err)
	}
	defer func(w time.Duration) { closeWait = w }(closeWait)
	closeWait = 20 * time.Millisecond
	if err := d.Close(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close of a busy device: %v", err)
	}
	if _, err := d.Alloc(64); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Alloc after a failed Close: %v", err)
	}
	u, _ := keeper.NewStreamPriority(0)
	if err := errors.Join(u.WriteValue64(gate.Ptr(), 1), s.Synchronize(bounded(t))); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 64)
	if err := keeper.CopyOut(got, a.Ptr()); err != nil || got[63] != 9 {
		t.Errorf("the memory was freed under the stream: %v %v", got[63], err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestTwoDevicesShareTheGPU(t *testing.T) {
	d, e := open(t, 0), open(t, 0)
	a, err := d.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.CopyIn(a.Ptr(), pattern(64, 1)); err != nil {
		t.Errorf("closing one Device broke the other: %v", err)
	}
}

func TestProperties(t *testing.T) {
	d := open(t, 0)
	p := d.Properties()
	if d.Name() == "" || d.Name() != p.Name || p.Major < 5 || p.SMs < 1 || p.Memory < 1<<28 ||
		p.SharedOptin < p.SharedPerBlock || p.ThreadsPerSM < 1024 {
		t.Errorf("%+v", p)
	}
	if ok, _ := regexp.MatchString(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`, p.BusID); !ok {
		t.Errorf("bus id %q", p.BusID)
	}
	free, total, err := d.MemoryInfo()
	if err != nil || free <= 0 || free > total || total > p.Memory {
		t.Errorf("free %d of %d, %v", free, total, err)
	}
}

func TestHostAlloc(t *testing.T) {
	d := open(t, 0)
	h, err := d.HostAlloc(10000)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(h.Bytes(), make([]byte, 10000)) {
		t.Error("not zero")
	}
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Memset(h.Ptr(), 0x5a, 10000), s.Synchronize(bounded(t))); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(h.Bytes(), bytes.Repeat([]byte{0x5a}, 10000)) {
		t.Error("the GPU's store is not seen by the host")
	}
	if _, err := d.Export(h.Ptr()); !errors.Is(err, device.ErrNotShareable) {
		t.Errorf("Export of host memory: %v", err)
	}
}

func TestStreamsAndEvents(t *testing.T) {
	d := open(t, 0)
	a, err := d.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	u, err := d.NewStreamPriority(-1)
	if err != nil {
		t.Fatal(err)
	}
	start, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	half := a.Ptr().Add(1 << 19)
	if err := s.Memset(a.Ptr(), 7, 1<<19); err != nil {
		t.Fatal(err)
	}
	mid, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(u.WaitEvent(mid), u.Copy(half, a.Ptr(), 1<<19)); err != nil {
		t.Fatal(err)
	}
	end, err := u.Record()
	if err != nil {
		t.Fatal(err)
	}
	if err := end.Wait(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if dt, err := end.Since(start); err != nil || dt < 0 || dt > 10 {
		t.Errorf("Since: %v s, %v", dt, err)
	}
	got := make([]byte, 1<<19)
	if err := d.CopyOut(got, half); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{7}, 1<<19)) {
		t.Errorf("the copy did not wait for the event (%v)", err)
	}
	for _, e := range []device.Event{start, mid, end} {
		if err := errors.Join(e.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	}
	if u.Device() != device.Device(d) || u.Raw() == 0 {
		t.Error("Device or Raw")
	}
}

func TestSynchronizeEndsWithTheContext(t *testing.T) {
	d := open(t, 0)
	h, err := d.HostAlloc(64)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := d.NewStreamPriority(0)
	if err := s.WaitValue64(h.Ptr(), 1); err != nil {
		t.Fatal(err)
	}
	e, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if err := s.Synchronize(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Synchronize: %v", err)
	}
	if err := e.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait: %v", err)
	}
	if ok, err := s.Query(); ok || err != nil {
		t.Errorf("Query: %v %v", ok, err)
	}
	// Another stream opens the gate.
	u, _ := d.NewStreamPriority(0)
	if err := errors.Join(u.WriteValue64(h.Ptr(), 1), s.Synchronize(bounded(t)), e.Wait(bounded(t))); err != nil {
		t.Error(err)
	}
}

func TestWriteAndWaitValue64(t *testing.T) {
	d := open(t, 0)
	if !d.Properties().StreamMemOps {
		t.Skip("no 64-bit stream memory operations")
	}
	a, err := d.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := d.NewStreamPriority(0)
	u, _ := d.NewStreamPriority(0)
	if err := errors.Join(s.WaitValue64(a.Ptr(), 41), s.Memset(a.Ptr().Add(8), 9, 8), u.WriteValue64(a.Ptr(), 42),
		s.Synchronize(bounded(t))); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 16)
	if err := d.CopyOut(got, a.Ptr()); err != nil || got[0] != 42 || got[8] != 9 {
		t.Errorf("% x %v", got, err)
	}
}

func TestWrapStream(t *testing.T) {
	d := open(t, 0)
	a, err := d.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	own, _ := d.NewStreamPriority(0)
	for _, raw := range []uintptr{0, 1, own.Raw()} {
		s, err := d.WrapStream(raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Memset(a.Ptr(), 1, 64), s.Synchronize(bounded(t)), s.Close()); err != nil {
			t.Errorf("stream %d: %v", raw, err)
		}
	}
	if err := own.Memset(a.Ptr(), 2, 64); err != nil {
		t.Errorf("closing the wrapper closed the stream: %v", err)
	}
	if n, _ := Count(); n > 1 {
		e := open(t, 1)
		other, err := e.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.WrapStream(other.Raw()); err == nil {
			t.Error("a stream of another GPU was adopted")
		}
	}
}

// Goroutines of two devices change threads under each other; every call must set its own context.
func TestManyGoroutines(t *testing.T) {
	open(t, 0)
	n, _ := Count()
	var wg sync.WaitGroup
	for g := range 8 {
		d := open(t, g%min(n, 2))
		wg.Go(func() {
			a, err := d.Alloc(4096)
			if err != nil {
				t.Error(err)
				return
			}
			s, err := d.NewStream()
			if err != nil {
				t.Error(err)
				return
			}
			for i := range 30 {
				v := byte(g*30 + i)
				if err := errors.Join(s.Memset(a.Ptr(), v, 4096), s.Synchronize(bounded(t))); err != nil {
					t.Error(err)
					return
				}
				got := make([]byte, 4096)
				if err := d.CopyOut(got, a.Ptr()); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{v}, 4096)) {
					t.Errorf("device %s: %v", d.ID(), err)
					return
				}
			}
		})
	}
	wg.Wait()
}
