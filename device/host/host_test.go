package host_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
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

func alloc(t testing.TB, d *host.Device, size int64) device.Allocation {
	t.Helper()
	a, err := d.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func stream(t testing.TB, d *host.Device) *host.Stream {
	t.Helper()
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	return s.(*host.Stream)
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// openFDs and mappings are what a leak would raise.
func openFDs(t testing.TB) int {
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(e)
}

func sharedMappings(t testing.TB) int {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("memfd:goccl"))
}

func TestAllocIsZeroedAlignedAndSealed(t *testing.T) {
	d := open(t, 0)
	for _, size := range []int64{0, 1, 4096, 4097, 5 << 20} {
		a := alloc(t, d, size)
		if a.Size() != size || uintptr(a.Ptr())%4096 != 0 {
			t.Errorf("Alloc(%d): size %d at %#x", size, a.Size(), uintptr(a.Ptr()))
		}
		for i, b := range device.Bytes(a.Ptr(), size) {
			if b != 0 {
				t.Fatalf("Alloc(%d): byte %d is %d", size, i, b)
			}
		}
		h, err := d.Export(a.Ptr())
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Ftruncate(h.FD, 0); err == nil {
			t.Errorf("Alloc(%d): an importer can cut the memory short", size)
		}
		_ = unix.Close(h.FD)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	}
}

func TestAllocRefusesWhatTheMachineHasNot(t *testing.T) {
	d := open(t, 0)
	for _, size := range []int64{-1, 1 << 45, 1 << 62} {
		if _, err := d.Alloc(size); !errors.Is(err, device.ErrOutOfMemory) {
			t.Errorf("Alloc(%d): %v, want ErrOutOfMemory", size, err)
		}
	}
}

func TestImportOfOwnExportIsTheSameAddress(t *testing.T) {
	d0, d1 := open(t, 0), open(t, 1)
	a := alloc(t, d0, 10000)
	h, err := d0.Export(a.Ptr().Add(5000))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(h.FD)
	if h.Type != device.HandleFD || h.Offset != 5000 || h.Base != a.Ptr() || h.Size != 10000 || h.Owner != d0.ID() {
		t.Fatalf("handle %+v", h)
	}
	b, err := d1.Import(h)
	if err != nil {
		t.Fatal(err)
	}
	if b.Ptr() != a.Ptr() {
		t.Fatalf("imported at %#x, allocated at %#x", uintptr(b.Ptr()), uintptr(a.Ptr()))
	}
	// The memory lives as long as the last of the two.
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	device.Bytes(b.Ptr(), b.Size())[9999] = 1
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestForeignMemoryIsMappedOnce(t *testing.T) {
	d := open(t, 0)
	fds, maps := openFDs(t), sharedMappings(t)
	fd := foreign(t, 8192, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW, true)
	h := device.Handle{Type: device.HandleFD, Owner: device.ID{Kind: device.Host, Index: 3}, FD: fd, Base: 0x1000, Size: 8000, Unique: 42}
	a, err := d.Import(h)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Import(h)
	if err != nil {
		t.Fatal(err)
	}
	if a.Ptr() != b.Ptr() {
		t.Error("mapped twice")
	}
	if _, err := unix.Pwrite(fd, []byte("hello"), 100); err != nil {
		t.Fatal(err)
	}
	if got := string(device.Bytes(b.Ptr().Add(100), 5)); got != "hello" {
		t.Errorf("read %q through the mapping", got)
	}
	if again, err := d.Export(a.Ptr()); err != nil || again.Owner.Index != 3 || again.Unique != 42 {
		t.Errorf("export of an import: %+v, %v", again, err)
	} else {
		_ = unix.Close(again.FD)
	}
	_ = unix.Close(fd)
	_ = a.Close()
	if sharedMappings(t) != maps+1 {
		t.Error("unmapped while still in use")
	}
	_ = b.Close()
	if f, m := openFDs(t), sharedMappings(t); f != fds || m != maps {
		t.Errorf("%d descriptors and %d mappings, before it were %d and %d", f, m, fds, maps)
	}
}

// foreign is a memfd as another process might send it.
func foreign(t *testing.T, size int64, seals int, reserve bool) int {
	t.Helper()
	fd, err := unix.MemfdCreate("goccl", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		t.Fatal(err)
	}
	if reserve {
		if err := unix.Fallocate(fd, 0, 0, size); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	return fd
}

func TestImportRefusesMemoryThatCouldFault(t *testing.T) {
	d := open(t, 0)
	both := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	file, err := os.Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]device.Handle{
		"not sealed":   {FD: foreign(t, 4096, unix.F_SEAL_GROW, true), Size: 4096},
		"too small":    {FD: foreign(t, 4096, both, true), Size: 4097},
		"negative":     {FD: foreign(t, 4096, both, true), Size: -1},
		"not reserved": {FD: foreign(t, 1<<20, both, false), Size: 1 << 20},
		"a file":       {FD: int(file.Fd()), Size: 4096},
		"no fd":        {FD: -1, Size: 4096},
	} {
		h.Type = device.HandleFD
		if a, err := d.Import(h); err == nil {
			t.Errorf("%s: imported", name)
			_ = a.Close()
		}
		if name != "a file" && h.FD >= 0 {
			_ = unix.Close(h.FD)
		}
	}
	if _, err := d.Import(device.Handle{Type: device.HandleLegacyIPC}); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("legacy IPC: %v", err)
	}
	if _, err := d.Import(device.Handle{Type: device.HandleLocal, Unique: 1}); !errors.Is(err, device.ErrNotShareable) {
		t.Errorf("local of another process: %v", err)
	}
}

func TestRegister(t *testing.T) {
	d := open(t, 0)
	mem := make([]byte, 100)
	p := device.Ptr(addressOf(mem))
	if _, err := d.Export(p); !errors.Is(err, device.ErrNotShareable) {
		t.Fatalf("export before register: %v", err)
	}
	a, err := d.Register(mem)
	if err != nil {
		t.Fatal(err)
	}
	h, err := d.Export(p.Add(99))
	if err != nil || h.Type != device.HandleLocal || h.Offset != 99 {
		t.Fatalf("export: %+v, %v", h, err)
	}
	if _, err := d.Export(p.Add(100)); !errors.Is(err, device.ErrNotShareable) {
		t.Errorf("export past the end: %v", err)
	}
	b, err := open(t, 1).Import(h)
	if err != nil || b.Ptr() != p {
		t.Fatalf("import: %v", err)
	}
	_, _ = a.Close(), b.Close()
	if _, err := d.Import(h); !errors.Is(err, device.ErrNotShareable) {
		t.Errorf("import after close: %v", err)
	}
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

// Opening and closing everything again and again must leave nothing.
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
		if runtime.NumGoroutine() <= goroutines && openFDs(t) <= fds && sharedMappings(t) <= maps { // less: what earlier tests left is gone
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d descriptors, %d mappings, %d goroutines; before it were %d, %d, %d", openFDs(t), sharedMappings(t), runtime.NumGoroutine(), fds, maps,
		goroutines)
}
