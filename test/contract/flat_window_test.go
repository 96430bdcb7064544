package contract_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/commtest"
)

// flat registers size bytes of every rank's memory and waits for all.
func flat(comms []*goccl.Comm, mem func(r int) device.Ptr, size func(r int) int64) ([]*goccl.FlatWindow, []error) {
	windows, errs := make([]*goccl.FlatWindow, len(comms)), make([]error, len(comms))
	for r, c := range comms {
		windows[r], errs[r] = c.RegisterFlat(mem(r), size(r))
	}
	for r, w := range windows {
		if errs[r] == nil {
			errs[r] = w.Await()
		}
	}
	return windows, errs
}

// Every rank writes into the memory of all ranks by base and stride alone; sizes differ and windows overlap.
func TestFlatWindows(t *testing.T) {
	commtest.NoLeak(t)
	const n = 3
	comms := commtest.New(t, n, commtest.Host, nil)
	mem := make([]device.Ptr, n)
	for r, c := range comms {
		mem[r] = commtest.Scratch(t, c)
	}
	for _, offset := range []int64{0, 512, 100} {
		windows, errs := flat(comms, func(r int) device.Ptr { return mem[r].Add(offset) },
			func(r int) int64 { return int64(1024 + 8*r) })
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for r, w := range windows {
			if w.Stride()%(4<<30) != 0 || w.Stride() == 0 {
				t.Errorf("stride %d", w.Stride())
			}
			for p := range comms {
				to := w.Base().Add(int64(p)*w.Stride() + int64(r))
				if err := comms[r].Device().CopyIn(to, []byte{byte(16*r + p)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for r, c := range comms {
			got := make([]byte, n)
			if err := c.Device().CopyOut(got, mem[r].Add(offset)); err != nil {
				t.Fatal(err)
			}
			if want := []byte{byte(r), byte(16 + r), byte(32 + r)}; !bytes.Equal(got, want) {
				t.Errorf("rank %d has %v, want %v", r, got, want)
			}
		}
		if err := errors.Join(windows[0].Close(), windows[0].Close()); err != nil {
			t.Error(err)
		}
	}
	if comms[0].Reaches() || comms[0].AbortWord() != 0 {
		t.Error("no kernels run on the host device")
	}
	if err := comms[1].Close(); err != nil { // with its windows
		t.Error(err)
	}
	if _, err := comms[1].RegisterFlat(mem[1], 8); !errors.Is(err, goccl.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Memory that cannot be shared is refused on all ranks with its owner's reason; the wait for an absent rank ends.
func TestFlatWindowsRefused(t *testing.T) {
	commtest.NoLeak(t)
	const n = 2
	comms := commtest.New(t, n, commtest.Host, nil)
	plain := commtest.Scratch(t, comms[1]).Add(64)
	_, errs := flat(comms, func(r int) device.Ptr {
		if r == 0 {
			return commtest.Scratch(t, comms[0])
		}
		return plain
	}, func(int) int64 { return 64 })
	for r, err := range errs {
		if !errors.Is(err, goccl.ErrUnsupported) || !strings.Contains(err.Error(), "same offset") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if _, err := comms[0].RegisterFlat(0, 8); !errors.Is(err, goccl.ErrInvalidArgument) {
		t.Error(err)
	}
	w, err := comms[0].RegisterFlat(commtest.Scratch(t, comms[0]), 64)
	if err != nil {
		t.Fatal(err)
	}
	cause := fmt.Errorf("enough: %w", goccl.ErrAborted)
	time.AfterFunc(20*time.Millisecond, func() { comms[0].Abort(cause) })
	if err := w.Await(); !errors.Is(err, goccl.ErrAborted) {
		t.Errorf("after an abort: %v", err)
	}
}
