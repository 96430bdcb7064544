package host_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
)

func alloc(t testing.TB, d *host.Device, size int64) device.Allocation {
	t.Helper()
	a, err := d.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// openFDs and mappings count the resources that a leak would increase.
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
	if _, err := d.Alloc(-5); err == nil || errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("Alloc(-5): %v, want an error that is not about memory", err)
	}
	for _, size := range []int64{1 << 45, 1 << 62} {
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
	defer func() { _ = unix.Close(h.FD) }()
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
	h := device.Handle{Type: device.HandleFD, Owner: device.ID{Kind: device.Host, Index: 3}, FD: fd, Base: 0x1000,
		Size: 8000, Unique: 42}
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
	if again, err := d.Export(a.Ptr()); !errors.Is(err, device.ErrNotShareable) {
		t.Errorf("export of an import: %+v, %v", again, err)
	}
	if r, err := d.Lookup(a.Ptr()); err != nil || r.Unique != 42 || r.Shareable {
		t.Errorf("look up: %+v, %v", r, err)
	}
	_ = unix.Close(fd)
	if f := openFDs(t); f != fds {
		t.Errorf("an import holds %d descriptors", f-fds)
	}
	_ = a.Close()
	if sharedMappings(t) != maps+1 {
		t.Error("unmapped while still in use")
	}
	_ = b.Close()
	if f, m := openFDs(t), sharedMappings(t); f != fds || m != maps {
		t.Errorf("%d descriptors and %d mappings, before it were %d and %d", f, m, fds, maps)
	}
}

// foreign returns a memfd as another process might send it.
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
	defer func() { _ = file.Close() }()
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
