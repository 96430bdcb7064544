package host_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
)

// Memory can be mapped at chosen places, more than once; nothing else can. Closing the device ends everything.
func TestReservation(t *testing.T) {
	before := sharedMappings(t)
	d, err := host.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	a := alloc(t, d, 5000)
	h, err := d.Export(a.Ptr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(h.FD) }()
	const page, size = 2 << 20, 64 << 20
	r, err := d.Reserve(size)
	if err != nil {
		t.Fatal(err)
	}
	if r.Ptr()%page != 0 {
		t.Errorf("reserved at %#x", r.Ptr())
	}
	for _, at := range []int64{0, 3 * page, size - page} {
		if err := r.Map(at, h); err != nil {
			t.Fatal(err)
		}
		device.Bytes(r.Ptr().Add(at), 5000)[4999]++
	}
	if got := device.Bytes(a.Ptr(), 5000)[4999]; got != 3 {
		t.Errorf("the memory has %d", got)
	}
	local, err := d.Register(make([]byte, 4096))
	if err != nil {
		t.Fatal(err)
	}
	lh, err := d.Export(local.Ptr())
	if err != nil {
		t.Fatal(err)
	}
	longer, other := h, h
	longer.Size, other.Owner.Kind = 1<<20, device.CUDA
	for name, c := range map[string]struct {
		at          int64
		h           device.Handle
		unsupported bool
	}{
		"before": {-page, h, false}, "beyond": {size, h, false}, "between pages": {4096, h, false},
		"longer than it is": {0, longer, false},
		"heap":              {0, lh, true}, "of a GPU": {0, other, true},
	} {
		if err := r.Map(c.at, c.h); err == nil || errors.Is(err, device.ErrUnsupported) != c.unsupported {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.Reserve(0); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("nothing is reserved: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := d.Reserve(page); !errors.Is(err, device.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if now := sharedMappings(t); now != before {
		t.Errorf("%d mappings, there were %d", now, before)
	}
}
