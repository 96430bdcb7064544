package contract_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
	"github.com/goccl/goccl/test/mockcuda"
)

// On the host device windows are accepted, checked, and change nothing.
func TestWindowOnHost(t *testing.T) {
	commtest.NoLeak(t)
	comms := commtest.New(t, 2, commtest.Host, nil)
	for _, c := range comms {
		p := commtest.Scratch(t, c)
		w, err := c.RegisterWindow(p, 4096)
		if err != nil {
			t.Fatal(err)
		}
		if w.Ptr() != p || w.Size() != 4096 {
			t.Errorf("%#x, %d", w.Ptr(), w.Size())
		}
		for name, bad := range map[string]struct {
			p device.Ptr
			n int64
		}{"no memory": {0, 8}, "no bytes": {p, 0}, "negative": {p, -1}} {
			if _, err := c.RegisterWindow(bad.p, bad.n); !errors.Is(err, goccl.ErrInvalidArgument) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := errors.Join(w.Close(), w.Close()); err != nil {
			t.Error(err)
		}
	}
	if err := conformance.Run(comms, conformance.Case{Collective: collective.AllGather, Type: datatype.Float32,
		Count: 1000}); err != nil {
		t.Error(err)
	}
	p := commtest.Scratch(t, comms[0])
	_ = comms[0].Close()
	if _, err := comms[0].RegisterWindow(p, 8); !errors.Is(err, goccl.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// One thread registers for all ranks and calls for all ranks; the calls are copies. The error names a rank without the
// window.
func TestOnMockWindows(t *testing.T) {
	if os.Getenv(commtest.MockVariable) != "" {
		t.Setenv("GOCCL_COPY_ENGINE", "1")
	}
	const count, ranks = 1 << 20, 4
	comms := commtest.OnMock(t, ranks, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = 10 * time.Second })
	var calls []goccl.Call
	var windows []*goccl.Window
	for _, c := range comms {
		mem, err := c.Device().Alloc(2 * ranks * count)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = mem.Close() })
		w, err := c.RegisterWindow(mem.Ptr(), ranks*count)
		if err != nil {
			t.Fatal(err)
		}
		windows = append(windows, w)
		calls = append(calls,
			goccl.Call{Comm: c, Request: collective.Request{Collective: collective.AllToAll, Send: mem.Ptr().Add(ranks * count),
				Recv: mem.Ptr(), Count: count, Stream: commtest.MockStream(t, c)}})
	}
	copied := func() int {
		t.Helper()
		trace, err := commtest.MockTrace()
		if err != nil {
			t.Fatal(err)
		}
		trace.Start()
		err = goccl.Submit(calls)
		noted, terr := trace.Stop()
		if err := errors.Join(err, terr); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, c := range noted {
			n += btoi(c.Kind == mockcuda.Copy)
		}
		return n
	}
	if n := copied(); n != ranks*ranks {
		t.Errorf("%d copies, want %d", n, ranks*ranks)
	}
	for i, c := range comms {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		if err := c.Synchronize(ctx, calls[i].Request.Stream); err != nil {
			t.Error(err)
		}
		stop()
	}
	for _, w := range windows {
		if err := errors.Join(w.Close(), w.Close()); err != nil {
			t.Error(err)
		}
	}
	if n := copied(); n != 0 {
		t.Errorf("%d copies into closed windows", n)
	}
}

// A collective in a window that a rank has not registered fails with that rank's name. The ranks' memory stays valid
// for the next communicator.
func TestOnMockWindowMissing(t *testing.T) {
	if os.Getenv(commtest.MockVariable) != "" {
		t.Setenv("GOCCL_COPY_ENGINE", "1")
	}
	comms := commtest.OnMock(t, 2, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = 200 * time.Millisecond })
	c := comms[0]
	mem, err := c.Device().Alloc(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mem.Close() })
	w, err := c.RegisterWindow(mem.Ptr(), 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	err = c.AllGather(mem.Ptr(), mem.Ptr(), 1<<20, datatype.Int8, commtest.MockStream(t, c))
	var ge *goccl.Error
	if !errors.Is(err, goccl.ErrTimeout) || !errors.As(err, &ge) || ge.Peer != 1 || ge.Op != "all_gather" ||
		!strings.Contains(err.Error(), "window 0") {
		t.Errorf("%v", err)
	}
	c.Abort(nil)
	if _, err := c.RegisterWindow(mem.Ptr().Add(8), 8); !errors.Is(err, goccl.ErrAborted) {
		t.Errorf("after an abort: %v", err)
	}
	if err := errors.Join(w.Close(), c.Close(), w.Close()); err != nil {
		t.Error(err)
	}
}

// A rank that aborts because of a third rank passes the cause on to a collective that waits for its window.
func TestOnMockWindowAbortNamesTheCause(t *testing.T) {
	if os.Getenv(commtest.MockVariable) != "" {
		t.Setenv("GOCCL_COPY_ENGINE", "1")
	}
	comms := commtest.OnMock(t, 3, nil)
	c := comms[1]
	mem, err := c.Device().Alloc(6 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mem.Close() })
	w, err := c.RegisterWindow(mem.Ptr(), 6<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	s := commtest.MockStream(t, c)
	done := make(chan error)
	go func() { done <- c.AllGather(mem.Ptr().Add(1<<20), mem.Ptr(), 1<<20, datatype.Int8, s) }()
	time.Sleep(20 * time.Millisecond)
	comms[0].Abort(&goccl.Error{Op: "communicator", Rank: 0, Peer: 2, Err: goccl.ErrPeerDead})
	want(t, "all-gather", 1, <-done, goccl.ErrPeerDead, 2)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
