package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/test/mockcuda"
)

func TestMain(m *testing.M) {
	_, cleanup, err := mockcuda.Setup()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	code := m.Run()
	cleanup()
	os.Exit(code)
}

func open(t *testing.T) *cuda.Device {
	t.Helper()
	if n, err := cuda.Count(); err != nil || n == 0 {
		t.Skip("this test needs a GPU or the mock driver: ", err)
	}
	dev, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil { // it counts open objects
			t.Error(err)
		}
	})
	return dev
}

func made(t *testing.T, dev *cuda.Device, cfg Config) *Launcher {
	t.Helper()
	l, err := New(dev, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Reports reach the owner, and count as unfinished work also after Free; an abort is no report.
func TestReports(t *testing.T) {
	dev := open(t)
	l := made(t, dev, Config{State: 256, Ticket: 128, Limit: time.Second})
	if l.Abort.SpinLimit.Load() != uint64(time.Second) {
		t.Errorf("limit %d", l.Abort.SpinLimit.Load())
	}
	if _, err := Load(dev, "onesided"); err != nil {
		t.Fatal(err)
	}
	timeout := errors.New("timeout")
	report := func(uint32, *abort.Block) error { return timeout }
	l.Abort.Reported.Store(abort.Aborted)
	if err := l.Reported(report); err != nil || !l.Unfinished() {
		t.Errorf("a wait that an abort has ended: %v", err)
	}
	l.Abort.Reported.Store(abort.Timeout)
	seen := make(chan error, 1)
	l.Watch(time.Millisecond, func() bool {
		err := l.Reported(report)
		seen <- err
		return err == nil
	})
	if err := <-seen; err != timeout {
		t.Errorf("the watch sees %v", err)
	}
	if err := errors.Join(l.Quiesce(), l.Free()); err != nil {
		t.Fatal(err)
	}
	l.Raise()
	if !l.Unfinished() || l.Busy() || l.Reported(report) != nil {
		t.Error("after Free the block must not be used, and its last word counts")
	}
}

// A borrowed order is not closed.
func TestBorrowedOrder(t *testing.T) {
	dev := open(t)
	owner := made(t, dev, Config{Ticket: -1})
	l := made(t, dev, Config{Order: owner.Order})
	if err := errors.Join(l.Quiesce(), l.Free()); err != nil {
		t.Fatal(err)
	}
	if err := owner.Order.Wait(context.Background()); err != nil {
		t.Errorf("the owner's order after Free: %v", err)
	}
	if err := errors.Join(owner.Quiesce(), owner.Free()); err != nil {
		t.Fatal(err)
	}
}

// The block is kept for kernels of the user only if the work was aborted before its end.
func TestLentBlock(t *testing.T) {
	dev := open(t)
	for _, aborted := range []bool{false, true} {
		l := made(t, dev, Config{})
		block := l.Abort
		if l.Grant() == 0 {
			t.Fatal("no address")
		}
		if aborted {
			l.Raise()
		}
		if err := errors.Join(l.Quiesce(), l.Free()); err != nil {
			t.Fatal(err)
		}
		if kept := l.memory != nil; kept != aborted {
			t.Errorf("aborted %v: kept %v", aborted, kept)
		}
		if aborted {
			if block.Abort.Load() != abort.Aborted {
				t.Error("the kept block has lost its reason")
			}
			if err := l.memory.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// What a failed New has made is freed.
func TestNewFails(t *testing.T) {
	dev := open(t)
	if l, err := New(dev, Config{State: 1 << 60}); err == nil {
		t.Fatalf("%v: no error for memory that no GPU has", l)
	}
}

// Work that does not end is reported once; idle times and new work begin anew.
func TestStall(t *testing.T) {
	s := Stall[int]{After: 4 * time.Second}
	now := time.Now()
	for i, c := range []struct {
		latest int
		busy   bool
		want   time.Duration
	}{{0, true, 0}, {1, true, 0}, {1, true, 0}, {1, false, 0}, {1, true, 0}, {1, true, 4}, {1, true, 0}, {2, true, 0},
		{2, true, 0}, {2, true, 4}} {
		now = now.Add(2 * time.Second)
		if got := s.Look(now, c.latest, func() bool { return c.busy }); got != c.want*time.Second {
			t.Errorf("look %d: %v, want %v s", i, got, int(c.want))
		}
	}
}
