package cuda

import (
	"bytes"
	"errors"
	"testing"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/mockcuda"
)

// VMM memory can be mapped at chosen places, more than once; nothing else can. Closing ends everything.
func TestReservation(t *testing.T) {
	d := open(t, 0)
	if !d.Properties().VMM {
		t.Skip("no virtual memory management")
	}
	a, err := d.Alloc(3 << 20)
	if err != nil {
		t.Fatal(err)
	}
	h, err := d.Export(a.Ptr())
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(h)
	legacy, err := d.AllocLegacy(page)
	if err != nil {
		t.Fatal(err)
	}
	lh, err := d.Export(legacy.Ptr())
	if err != nil {
		t.Fatal(err)
	}
	was := objects(t)
	r, err := d.Reserve(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStreamPriority(0)
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range []int64{0, 4 * page, 60 << 20} {
		if err := r.Map(at, h); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Memset(r.Ptr().Add(at+int64(i)*100), byte(1+i), 100),
			s.Synchronize(bounded(t))); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, 300)
	var want []byte
	for i := range byte(3) {
		want = append(want, bytes.Repeat([]byte{1 + i}, 100)...)
	}
	if err := d.CopyOut(got, a.Ptr()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the stores are not seen (%v)", err)
	}
	host := device.Handle{Type: device.HandleFD, FD: h.FD, Size: page, Owner: device.ID{Kind: device.Host}}
	for name, c := range map[string]struct {
		at          int64
		h           device.Handle
		unsupported bool
	}{
		"before": {-page, h, false}, "beyond": {62 << 20, h, false}, "between pages": {20<<20 + 4096, h, false},
		"where something is": {page, h, false},
		"legacy":             {8 << 20, lh, true}, "of the host": {8 << 20, host, true},
	} {
		if err := r.Map(c.at, c.h); err == nil || errors.Is(err, device.ErrUnsupported) != c.unsupported {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.Reserve(0); err == nil {
		t.Error("nothing is reserved")
	}
	if err := errors.Join(r.Close(), r.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if now := objects(t); now != was {
		t.Errorf("%v objects of the driver, there were %v", now, was)
	}
}

// objects are the counts of the mock driver's objects.
func objects(t *testing.T) (c [mockcuda.NumCounts]int) {
	if mocked {
		c = counts(t)
	}
	return c
}
