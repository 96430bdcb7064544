package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
)

func closeFD(h device.Handle) {
	if h.Type == device.HandleFD {
		_ = syscall.Close(h.FD)
	}
}

// Another process reads and writes both kinds of memory, on the same and on another GPU, also from inside an
// allocation.
func TestShareWithAnotherProcess(t *testing.T) {
	d := open(t, 0)
	n, _ := Count()
	for _, c := range []struct {
		name  string
		alloc func(int64) (device.Allocation, error)
		kind  device.HandleType
	}{{"VMM", d.Alloc, device.HandleFD}, {"legacy", d.AllocLegacy, device.HandleLegacyIPC}} {
		for dev := range min(n, 2) {
			if ok, _ := CanAccessPeer(dev, 0); dev != 0 && !ok {
				continue
			}
			for _, offset := range []int64{0, 4096 + 16} {
				before := fds(t)
				a, err := c.alloc(3 << 20)
				if err != nil {
					t.Fatal(err)
				}
				if err := d.CopyIn(a.Ptr(), bytes.Repeat([]byte{0x11}, int(a.Size()))); err != nil {
					t.Fatal(err)
				}
				h, err := d.Export(a.Ptr().Add(offset))
				if err != nil {
					t.Fatal(err)
				}
				if h.Type != c.kind || h.Offset != offset || h.Base != a.Ptr() || h.Size < a.Size() || h.Owner != d.ID() {
					t.Fatalf("%s: handle %+v for %#x+%d, %d bytes", c.name, h, a.Ptr(), offset, a.Size())
				}
				h.Size = a.Size()                                                             // cudaMalloc may have rounded up
				runChild(t, job{Device: dev, Handle: h, Want: 0x11, Fill: 0x22, Twice: true}) // closes h.FD
				got := make([]byte, a.Size())
				if err := d.CopyOut(got, a.Ptr()); err != nil {
					t.Fatal(err)
				}
				want := append(bytes.Repeat([]byte{0x11}, int(offset)), bytes.Repeat([]byte{0x22}, int(a.Size()-offset))...)
				if !bytes.Equal(got, want) {
					t.Errorf("%s, GPU %d, offset %d: the child's stores are not seen", c.name, dev, offset)
				}
				if err := a.Close(); err != nil {
					t.Fatal(err)
				}
				if now := fds(t); mocked && now != before {
					t.Errorf("%s: %d descriptors before, %d after", c.name, before, now)
				}
			}
		}
	}
}

func TestImportOfOwnMemoryIsTheOriginal(t *testing.T) {
	d := open(t, 0)
	for _, alloc := range []func(int64) (device.Allocation, error){d.Alloc, d.AllocLegacy} {
		a, err := alloc(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		h, err := d.Export(a.Ptr().Add(100))
		if err != nil {
			t.Fatal(err)
		}
		b, err := d.Import(h)
		if err != nil {
			t.Fatal(err)
		}
		if b.Ptr() != a.Ptr() || b.Size() != a.Size() {
			t.Errorf("%#x imported as %#x", a.Ptr(), b.Ptr())
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if err := d.CopyIn(a.Ptr(), pattern(10, 1)); err != nil {
			t.Errorf("closing the import freed the original: %v", err)
		}
		closeFD(h)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Another GPU of the process can use the memory at its address, in either order of opening.
func TestPeersInOneProcess(t *testing.T) {
	d := open(t, 0)
	a, err := d.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	e := open(t, 1)
	if ok, err := CanAccessPeer(1, 0); err != nil || !ok {
		t.Skip("no peer access", err)
	}
	l, err := d.AllocLegacy(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	own, err := e.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.NewStreamPriority(0)
	if err != nil {
		t.Fatal(err)
	}
	want := pattern(1<<20, 5)
	for _, m := range []device.Allocation{a, l, b} {
		// Without any import, whether m was made before or after the second GPU was opened.
		if err := errors.Join(s.Memset(m.Ptr(), 1, 64), s.Copy(own.Ptr(), m.Ptr(), 64),
			s.Synchronize(bounded(t))); err != nil {
			t.Fatalf("direct use of a peer's memory: %v", err)
		}
		h, err := d.Export(m.Ptr())
		if err != nil {
			t.Fatal(err)
		}
		imp, err := e.Import(h)
		closeFD(h)
		if err != nil {
			t.Fatal(err)
		}
		if imp.Ptr() != m.Ptr() {
			t.Errorf("%#x imported as %#x", m.Ptr(), imp.Ptr())
		}
		got := make([]byte, 1<<20)
		if err := errors.Join(d.CopyIn(m.Ptr(), want), s.Copy(own.Ptr(), m.Ptr(), 1<<20), s.Memset(m.Ptr(), 3, 1<<20),
			s.Synchronize(bounded(t)), e.CopyOut(got, own.Ptr())); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Error("copy from the peer")
		}
		if err := errors.Join(s.Copy(own.Ptr(), m.Ptr(), 1<<20), s.Synchronize(bounded(t)),
			e.CopyOut(got, own.Ptr())); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, bytes.Repeat([]byte{3}, 1<<20)) {
			t.Error("store to the peer")
		}
		if err := imp.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A kernel, not a copy engine, must reach the peer too.
func TestKernelReachesPeer(t *testing.T) {
	d, e := open(t, 0), open(t, 1)
	if ok, err := CanAccessPeer(1, 0); err != nil || !ok {
		t.Skip("no peer access", err)
	}
	for _, alloc := range []func(int64) (device.Allocation, error){d.Alloc, d.AllocLegacy} {
		a, err := alloc(1 << 12)
		if err != nil {
			t.Fatal(err)
		}
		one := make([]byte, 1<<12)
		for i := 0; i < len(one); i += 4 {
			binary.LittleEndian.PutUint32(one[i:], uint32(i))
		}
		if err := d.CopyIn(a.Ptr(), one); err != nil {
			t.Fatal(err)
		}
		f := addKernel(t, e)
		s, _ := e.NewStreamPriority(0)
		args := new(Args).Ptr(a.Ptr()).Ptr(a.Ptr()).Ptr(a.Ptr()).Uint32(1 << 10)
		if err := errors.Join(s.Launch(f, Launch1D(4, 256, 0), args), s.Synchronize(bounded(t)),
			d.CopyOut(one, a.Ptr())); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(one); i += 4 {
			if got := binary.LittleEndian.Uint32(one[i:]); got != uint32(2*i) {
				t.Fatalf("element %d is %d", i/4, got)
			}
		}
	}
}

// Memory may be freed while another goroutine exports it.
func TestExportOfFreedMemory(t *testing.T) {
	d := open(t, 0)
	for range 200 {
		a, err := d.Alloc(1)
		if err != nil {
			t.Fatal(err)
		}
		exported, ended := make(chan bool, 1), make(chan bool)
		go func() {
			defer close(ended)
			for {
				h, err := d.Export(a.Ptr())
				select {
				case exported <- true:
				default:
				}
				if err != nil {
					return
				}
				closeFD(h)
			}
		}()
		<-exported
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		<-ended
	}
}

func TestExportRefusals(t *testing.T) {
	d := open(t, 0)
	mem, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(mem) }()
	for _, p := range []device.Ptr{0, 16, device.Ptr(addr(mem))} {
		if _, err := d.Export(p); !errors.Is(err, device.ErrNotShareable) {
			t.Errorf("Export(%#x): %v", p, err)
		}
	}
}

func TestImportRefusals(t *testing.T) {
	d := open(t, 0)
	a, err := d.Alloc(1)
	if err != nil {
		t.Fatal(err)
	}
	h, err := d.Export(a.Ptr())
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(h)
	before := counts0(t)
	for name, change := range map[string]func(*device.Handle){
		"type":         func(h *device.Handle) { h.Type, h.Unique = 99, 1 },
		"size zero":    func(h *device.Handle) { h.Size = 0 },
		"offset":       func(h *device.Handle) { h.Offset = h.Size },
		"too large":    func(h *device.Handle) { h.Size, h.Unique = h.Size*2, 1 },
		"odd size":     func(h *device.Handle) { h.Size, h.Unique = h.Size+1, 1 },
		"no such fd":   func(h *device.Handle) { h.FD, h.Unique = 999, 1 },
		"garbage IPC":  func(h *device.Handle) { h.Type, h.Unique = device.HandleLegacyIPC, 1 },
		"host, no fd":  func(h *device.Handle) { h.Owner.Kind, h.FD = device.Host, -1 },
		"host, local":  func(h *device.Handle) { h.Owner.Kind, h.Type = device.Host, device.HandleLocal },
		"local handle": func(h *device.Handle) { h.Type, h.Unique = device.HandleLocal, 1 },
	} {
		bad := h
		change(&bad)
		if x, err := d.Import(bad); err == nil {
			t.Errorf("%s: imported at %#x", name, x.Ptr())
		}
	}
	if mocked && counts0(t) != before {
		t.Error("a refused import left something mapped")
	}
}

func counts0(t testing.TB) any {
	if mocked {
		return counts(t)
	}
	return nil
}

func TestImportHostMemory(t *testing.T) {
	d := open(t, 0)
	fd, err := unix.MemfdCreate("goccl-test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	defer func() { _ = f.Close() }()
	if err := f.Truncate(8192); err != nil {
		t.Fatal(err)
	}
	a, err := d.Import(device.Handle{Type: device.HandleFD, Owner: device.ID{Kind: device.Host}, FD: fd, Size: 8192})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := d.NewStreamPriority(0)
	if err := errors.Join(s.Memset(a.Ptr(), 0x77, 8192), s.Synchronize(bounded(t))); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 8192)
	if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{0x77}, 8192)) {
		t.Errorf("the file does not show the GPU's stores (%v)", err)
	}
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Error(err)
	}
}

func TestUniqueTellsReusedAddressesApart(t *testing.T) {
	d := open(t, 0)
	seen := map[uint64]bool{}
	for range 4 {
		for _, alloc := range []func(int64) (device.Allocation, error){d.Alloc, d.AllocLegacy} {
			a, err := alloc(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			h, err := d.Export(a.Ptr())
			if err != nil {
				t.Fatal(err)
			}
			closeFD(h)
			inside, err := d.Export(a.Ptr().Add(5000))
			if err != nil {
				t.Fatal(err)
			}
			closeFD(inside)
			if inside.Base != h.Base || inside.Size != h.Size || inside.Unique != h.Unique || inside.Offset != 5000 {
				t.Errorf("inside: %+v; at the base: %+v", inside, h)
			}
			if seen[h.Unique] {
				t.Error("Unique repeats")
			}
			seen[h.Unique] = true
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Region agrees with Export on memory of this GPU, and is not ok for memory of the host, of another GPU, or freed.
func TestRegion(t *testing.T) {
	d := open(t, 0)
	other := d
	if n, _ := Count(); n > 1 {
		other = open(t, 1)
	}
	h, err := d.HostAlloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	for _, alloc := range []func(int64) (device.Allocation, error){d.Alloc, d.AllocLegacy} {
		a, err := alloc(3 << 20)
		if err != nil {
			t.Fatal(err)
		}
		want, err := d.Export(a.Ptr())
		if err != nil {
			t.Fatal(err)
		}
		closeFD(want)
		base, size, unique, ok := d.Region(a.Ptr().Add(4096))
		if !ok || base != want.Base || size != want.Size || unique != want.Unique {
			t.Errorf("%#x, %d bytes, unique %#x, %v; the handle says %+v", uintptr(base), size, unique, ok, want)
		}
		if _, _, _, ok := other.Region(a.Ptr()); ok != (other == d) {
			t.Errorf("on the other GPU: %v", ok)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if _, _, now, ok := d.Region(a.Ptr()); ok && now == unique {
			t.Error("freed memory is found")
		}
	}
	for _, p := range []device.Ptr{h.Ptr(), 64} {
		if _, _, _, ok := d.Region(p); ok {
			t.Errorf("%#x is memory of the GPU", uintptr(p))
		}
	}
}
