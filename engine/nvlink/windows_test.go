package nvlink

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/share"
)

func registerWindow(t testing.TB, e *Engine, p device.Ptr, n int64) io.Closer {
	t.Helper()
	w, err := e.RegisterWindow(p, n)
	must(t, err)
	return w
}

// windowAt returns this rank's window of n bytes at p, and whether it can be used.
func windowAt(t testing.TB, e *Engine, p device.Ptr, n int64) (*share.Window, bool) {
	t.Helper()
	w := e.windows.Find(p, n)
	if w == nil {
		t.Fatalf("rank %d has no window of %d bytes at %#x", e.rank, n, p)
	}
	usable, err := w.Await()
	must(t, err)
	return w, usable
}

// If one rank cannot share its part, no rank copies into the window; the next window works again.
func TestWindowsAgree(t *testing.T) {
	const size = 4 * copyFrom
	engines := copyEngines(t, 4)
	for _, c := range []struct {
		name string
		less int64 // bytes by which rank 1's memory is smaller
		want bool
	}{{"all", 0, true}, {"rank 1 has less", 16 << 20, false}, {"all again", 0, true}} {
		t.Run(c.name, func(t *testing.T) {
			mem, open := make([]device.Ptr, len(engines)), make([]io.Closer, len(engines))
			for r, e := range engines {
				mem[r] = memory(t, e, size+c.less*int64(plain.Bit[int](r != 1)))
				open[r] = registerWindow(t, e, mem[r], size+c.less)
			}
			for r, e := range engines {
				if _, usable := windowAt(t, e, mem[r], 1); usable != c.want {
					t.Errorf("rank %d: usable %v", r, usable)
				}
				s := newStream(t, e)
				calls := noted(t, func() {
					must(t, e.Enqueue(1, []collective.Request{moves(e, collective.AllGather, mem[r], mem[r], size/4, s)}))
				})
				if strings.Contains(kinds(calls), "copy") != c.want {
					t.Errorf("rank %d: %s", r, kinds(calls))
				}
			}
			for _, o := range open {
				must(t, o.Close())
			}
		})
	}
}

// Sizes that differ cause an error that names the window and the rank, on all ranks.
func TestWindowsOfDifferentSizes(t *testing.T) {
	engines := copyEngines(t, 3)
	mem := make([]device.Ptr, len(engines))
	for r, e := range engines {
		mem[r] = memory(t, e, 8*copyFrom)
		registerWindow(t, e, mem[r], 4*copyFrom+int64(plain.Bit[int](r == 1)))
	}
	for r, e := range engines {
		s := newStream(t, e)
		err := e.Enqueue(7, []collective.Request{moves(e, collective.AllGather, mem[r], mem[r], copyFrom, s)})
		peer := 1
		if r == 1 {
			peer = 0
		}
		var ae *collective.Error
		if !errors.Is(err, collective.ErrMismatch) || !errors.As(err, &ae) || ae.Peer != peer || ae.Rank != r ||
			ae.Seq != 7 || !strings.Contains(err.Error(), "window 0") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// The wait for windows ends: with an error that names the rank that registered none, or with an abort.
func TestWindowsMissing(t *testing.T) {
	engines := copyEngines(t, 3)
	boots, requests := bootstrap.NewLocalGroup(len(engines)), make([][]collective.Request, len(engines))
	for r, e := range engines {
		e.windows = share.NewWindows(boots[r], tags.Window, e.dev, 50*time.Millisecond)
		p := memory(t, e, 4*copyFrom)
		requests[r] = []collective.Request{moves(e, collective.AllGather, p, p, copyFrom, newStream(t, e))}
		if r != 2 {
			registerWindow(t, e, p, 4*copyFrom)
		}
	}
	e := engines[0]
	err := e.Enqueue(3, requests[0])
	var ae *collective.Error
	if !errors.Is(err, collective.ErrTimeout) || !errors.As(err, &ae) || ae.Peer < 1 ||
		!strings.Contains(err.Error(), "window 0") {
		t.Errorf("%v", err)
	}
	e.Abort(errors.New("enough"))
	if err := e.Enqueue(4, requests[0]); !errors.Is(err, collective.ErrAborted) {
		t.Errorf("%v", err)
	}
	if _, err := e.RegisterWindow(requests[0][0].Recv, 8); !errors.Is(err, collective.ErrAborted) {
		t.Errorf("%v", err)
	}
}

func TestWindowWaitLimit(t *testing.T) {
	for _, c := range []struct{ timeout, op, want time.Duration }{
		{0, 0, defaultWindowWait}, {time.Minute, 0, time.Minute},
		{time.Minute, time.Second, time.Second}, {0, time.Hour, defaultWindowWait},
	} {
		if got := waitLimit(&Config{Job: collective.Job{Timeout: c.timeout, OpTimeout: c.op}}); got != c.want {
			t.Errorf("%v, %v: %v, want %v", c.timeout, c.op, got, c.want)
		}
	}
}

// An operation in a window that this rank has closed does not copy; in one that a peer has closed it gets an error that
// names the peer. Windows that are still open end with the engine.
func TestWindowClose(t *testing.T) {
	const size = 4 * copyFrom
	engines := copyEngines(t, 2)
	before := share.Mapped()
	open, mem := make([]io.Closer, 2), make([]device.Ptr, 2)
	for r, e := range engines {
		mem[r] = memory(t, e, size)
		open[r] = registerWindow(t, e, mem[r], size)
	}
	for r, e := range engines {
		if _, usable := windowAt(t, e, mem[r], size); !usable {
			t.Fatal("not usable")
		}
	}
	must(t, open[0].Close())
	put := func(r int) error {
		e := engines[r]
		s := newStream(t, e)
		return e.Enqueue(1, []collective.Request{moves(e, collective.AllGather, mem[r], mem[r], copyFrom, s)})
	}
	if calls := noted(t, func() { must(t, put(0)) }); strings.Contains(kinds(calls), "copy") {
		t.Error("copied into a closed window")
	}
	eventually(t, "the peer knows", func() bool { return put(1) != nil })
	var ae *collective.Error
	if err := put(1); !errors.Is(err, collective.ErrMismatch) || !errors.As(err, &ae) || ae.Peer != 0 {
		t.Errorf("%v", err)
	}
	for _, e := range engines {
		must(t, e.Close())
	}
	must(t, open[1].Close())
	if got := share.Mapped(); got > before {
		t.Errorf("%d mappings, there were %d", got, before)
	}
	if _, err := engines[0].RegisterWindow(1<<20, 8); !errors.Is(err, collective.ErrAborted) {
		t.Errorf("after the end: %v", err)
	}
}
