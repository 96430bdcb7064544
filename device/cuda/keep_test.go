package cuda

import "testing"

// Host memory is recycled while communicators may exist, and freed after the last of them.
func TestHostMemoryIsKept(t *testing.T) {
	d := open(t, 0)
	if !mocked {
		t.Skip("this test counts the objects of the mock driver")
	}
	regions := func() int { return counts(t)[0] }
	alloc := func(size int64) *HostMemory {
		t.Helper()
		h, err := d.HostAlloc(size)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	free := func(h *HostMemory) {
		t.Helper()
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	before := regions()
	one, two := d.Hold(), d.Hold()
	page, large := alloc(1), alloc(10000)
	page.Bytes()[0], large.Bytes()[9999] = 1, 1
	at := large.Host()
	free(page)
	free(large)
	if n := regions(); n != before+2 {
		t.Errorf("%d regions, want a slab and a block beside %d", n, before)
	}
	again := alloc(9000) // the same number of pages
	if again.Host() != at || again.Size() != 9000 || again.Bytes()[8999] != 0 || alloc(4096).Bytes()[0] != 0 {
		t.Errorf("%d bytes at %#x, not zeroed ones at %#x", again.Size(), again.Host(), at)
	}
	huge := alloc(mostKept + 1)
	free(huge)
	if err := one(); err != nil {
		t.Error(err)
	}
	if err := one(); err != nil { // has no effect
		t.Error(err)
	}
	free(again)
	if n := regions(); n != before+2 {
		t.Errorf("%d regions while there is a hold, want %d", n, before+2)
	}
	if err := two(); err != nil {
		t.Error(err)
	}
	if n := regions(); n != before+1 {
		t.Errorf("%d regions after the last hold, want only the slab beside %d", n, before)
	}
	free(alloc(10000))
	if n := regions(); n != before+1 {
		t.Errorf("%d regions: without a hold, memory is freed at once", n)
	}
}

// All modules of a name are one, also of another Device of the GPU, and it outlives its first Device.
func TestSharedModule(t *testing.T) {
	d, e := open(t, 0), open(t, 0)
	opened := 0
	image := func() ([]byte, error) {
		opened++
		return []byte(testPTX), nil
	}
	a, err := d.SharedModule("add", []string{"goccl_test_add"}, image)
	if err != nil {
		t.Fatal(err)
	}
	f, err := a.Function("goccl_test_add")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	b, err := e.SharedModule("add", nil, image)
	if err != nil || a != b || opened != 1 {
		t.Fatalf("modules %p and %p of %d images: %v", a, b, opened, err)
	}
	if g, err := b.Function("goccl_test_add"); err != nil || f != g {
		t.Errorf("kernels %p and %p: %v", f, g, err)
	}
	if _, err := e.SharedModule("other", []string{"none"}, image); err == nil {
		t.Error("a module lacks a kernel, and loads")
	}
}
