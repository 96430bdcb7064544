package nvlink

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/share"
)

func registerWindow(t testing.TB, e *Engine, p device.Ptr, n int64) io.Closer {
	t.Helper()
	w, err := e.RegisterWindow(p, n)
	must(t, err)
	return w
}

// windowAt returns the window with a number on a rank, decided.
func windowAt(t testing.TB, e *Engine, p device.Ptr, n int64) (*window, bool) {
	t.Helper()
	w := e.symmetric.find(p, n)
	if w == nil {
		t.Fatalf("rank %d has no window of %d bytes at %#x", e.rank, n, p)
	}
	usable, err := e.symmetric.await(w)
	must(t, err)
	return w, usable
}

// If one rank cannot share or map a part, no rank uses the window; the next window works again.
func TestWindowsAgree(t *testing.T) {
	const size = 4 * copyFrom
	engines := copyEngines(t, 4)
	refuse := func(context.Context, *share.Descriptor) (*share.Mapping, error) {
		return nil, errors.New("refused by the test")
	}
	usual := engines[2].symmetric.mapShare
	for name, c := range map[string]struct {
		maps func(context.Context, *share.Descriptor) (*share.Mapping, error) // for rank 2
		less int64                                                            // bytes by which rank 1's part is smaller
		want bool
	}{
		"all":              {usual, 0, true},
		"rank 2 maps none": {refuse, 0, false},
		"rank 1 has less":  {usual, 16 << 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			engines[2].symmetric.mapShare = c.maps // no work is in flight
			mem, open := make([]device.Ptr, len(engines)), make([]io.Closer, len(engines))
			for r, e := range engines {
				mem[r] = memory(t, e, size+c.less*int64(btoi(r != 1)))
				open[r] = registerWindow(t, e, mem[r], size+c.less)
			}
			for r, e := range engines {
				w, usable := windowAt(t, e, mem[r], 1)
				if usable != c.want {
					t.Errorf("rank %d: usable %v", r, usable)
				}
				s := newStream(t, e)
				calls := noted(t, func() {
					must(t, e.Enqueue(1, []algorithm.Request{moves(e, algorithm.AllGather, mem[r], mem[r], size/4, s)}))
				})
				if strings.Contains(kinds(calls), "copy") != c.want {
					t.Errorf("rank %d: %s", r, kinds(calls))
				}
				if w.revoke != nil {
					t.Errorf("rank %d still offers its part", r)
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
		registerWindow(t, e, mem[r], 4*copyFrom+int64(btoi(r == 1)))
	}
	for r, e := range engines {
		err := e.Enqueue(7, []algorithm.Request{moves(e, algorithm.AllGather, mem[r], mem[r], copyFrom, newStream(t, e))})
		peer := 1
		if r == 1 {
			peer = 0
		}
		var ae *algorithm.Error
		if !errors.Is(err, algorithm.ErrMismatch) || !errors.As(err, &ae) || ae.Peer != peer || ae.Rank != r || ae.Seq != 7 || !strings.Contains(err.Error(), "window 0") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// The wait for windows ends: with an error that names the rank that registered none, or with an abort.
func TestWindowsMissing(t *testing.T) {
	engines := copyEngines(t, 3)
	var mem device.Ptr
	for r, e := range engines {
		e.symmetric.limit = 50 * time.Millisecond
		p := memory(t, e, 4*copyFrom)
		if r == 0 {
			mem = p
		}
		if r != 2 {
			registerWindow(t, e, p, 4*copyFrom)
		}
	}
	e := engines[0]
	s := newStream(t, e)
	r := moves(e, algorithm.AllGather, mem, mem, copyFrom, s)
	eventually(t, "rank 1 is there", func() bool {
		e.symmetric.mu.Lock()
		defer e.symmetric.mu.Unlock()
		return e.symmetric.byNumber[0].parts[1].heard
	})
	err := e.Enqueue(3, []algorithm.Request{r})
	var ae *algorithm.Error
	if !errors.Is(err, algorithm.ErrTimeout) || !errors.As(err, &ae) || ae.Peer != 2 || !strings.Contains(err.Error(), "window 0") || !strings.Contains(err.Error(), "rank 2") {
		t.Errorf("%v", err)
	}
	e.symmetric.limit = time.Hour
	done := make(chan error)
	go func() { done <- e.Enqueue(4, []algorithm.Request{r}) }()
	e.Abort(errors.New("enough"))
	if err := <-done; !errors.Is(err, algorithm.ErrAborted) {
		t.Errorf("%v", err)
	}
	if _, err := e.RegisterWindow(mem, 8); !errors.Is(err, algorithm.ErrAborted) {
		t.Errorf("%v", err)
	}
}

func TestWindowWaitLimit(t *testing.T) {
	for _, c := range []struct{ timeout, op, want time.Duration }{
		{0, 0, defaultWindowWait}, {time.Minute, 0, time.Minute}, {time.Minute, time.Second, time.Second}, {0, time.Hour, defaultWindowWait},
	} {
		if got := waitLimit(&Config{Timeout: c.timeout, OpTimeout: c.op}); got != c.want {
			t.Errorf("%v, %v: %v, want %v", c.timeout, c.op, got, c.want)
		}
	}
}

// Register many windows in varying address order; no rank uses those that overlap on a rank.
func TestManyWindows(t *testing.T) {
	const many, size = 40, 3 * copyFrom
	engines := copyEngines(t, 3)
	mem := make([][]device.Ptr, len(engines))
	open := make([][]io.Closer, len(engines))
	for r, e := range engines {
		block := memory(t, e, many*size)
		for i := range many {
			p := block.Add(int64((i*(2*r+1)*7)%many) * size)
			if (2*r+1)%5 == 0 {
				p = block.Add(int64(many-1-i) * size)
			}
			mem[r] = append(mem[r], p)
			open[r] = append(open[r], registerWindow(t, e, p, size))
		}
	}
	for r, e := range engines {
		for i := range many {
			w, usable := windowAt(t, e, mem[r][i].Add(5), size-5)
			if w.number != i || !usable {
				t.Fatalf("rank %d: window %d is %d, usable %v", r, i, w.number, usable)
			}
			for p := range engines {
				if p != r && w.parts[p].mapping.Ptr != mem[p][i] {
					t.Errorf("rank %d has window %d of rank %d at %#x, want %#x", r, i, p, w.parts[p].mapping.Ptr, mem[p][i])
				}
			}
		}
		if e.symmetric.find(mem[r][0].Add(1), size) != nil {
			t.Error("a window is found for what is not all in it")
		}
	}
	more := make([]device.Ptr, len(engines))
	for r, e := range engines {
		if more[r] = memory(t, e, size); r == 1 {
			more[r] = mem[r][3].Add(size - 1)
		}
		open[r] = append(open[r], registerWindow(t, e, more[r], 2))
	}
	for r, e := range engines {
		if r == 1 {
			if w := e.symmetric.find(more[r], 1); w == nil || w.number != 3 {
				t.Errorf("an overlapping window has taken the place of one before it: %+v", w)
			}
			continue
		}
		if w, usable := windowAt(t, e, more[r], 2); usable || w.number != many {
			t.Errorf("rank %d: window %d usable %v", r, w.number, usable)
		}
	}
	for r := range engines {
		for _, w := range open[r] {
			must(t, errors.Join(w.Close(), w.Close()))
		}
	}
	eventually(t, "all is forgotten", func() bool {
		for _, e := range engines {
			e.symmetric.mu.Lock()
			n, m := len(e.symmetric.byNumber), len(e.symmetric.open)
			e.symmetric.mu.Unlock()
			if n > 0 || m > 0 {
				return false
			}
		}
		return true
	})
}

// Close of a window also closes its mappings. An operation in a window that a peer has closed gets an error that names
// the peer.
func TestWindowClose(t *testing.T) {
	const size = 4 * copyFrom
	engines := copyEngines(t, 2)
	before := share.Mapped()
	var open []io.Closer
	mem := make([]device.Ptr, 2)
	for r, e := range engines {
		mem[r] = memory(t, e, size)
		open = append(open, registerWindow(t, e, mem[r], size))
	}
	for r, e := range engines {
		if _, usable := windowAt(t, e, mem[r], size); !usable {
			t.Fatal("not usable")
		}
	}
	if got := share.Mapped(); got != before+2 {
		t.Errorf("%d mappings, there were %d", got, before)
	}
	must(t, open[0].Close())
	if got := share.Mapped(); got != before+1 {
		t.Errorf("%d mappings after the first rank has closed the window, there were %d", got, before)
	}
	s := newStream(t, engines[0])
	if calls := noted(t, func() {
		must(t, engines[0].Enqueue(1, []algorithm.Request{moves(engines[0], algorithm.AllGather, mem[0], mem[0], copyFrom, s)}))
	}); strings.Contains(kinds(calls), "copy") {
		t.Error("copied into a closed window")
	}
	w := engines[1].symmetric.find(mem[1], size)
	eventually(t, "the peer knows", func() bool { _, err := engines[1].symmetric.await(w); return err != nil })
	var ae *algorithm.Error
	if _, err := engines[1].symmetric.await(w); !errors.Is(err, algorithm.ErrMismatch) || !errors.As(err, &ae) || ae.Peer != 0 {
		t.Errorf("%v", err)
	}
	must(t, open[1].Close())
	if got := share.Mapped(); got != before {
		t.Errorf("%d mappings after both have, there were %d", got, before)
	}
}

// Windows that were not closed end with the engines, and closing them later is harmless; so do windows registered just
// before.
func TestWindowsEndWithTheEngine(t *testing.T) {
	before := share.Mapped()
	var open []io.Closer
	var first [3][]device.Ptr
	engines := copyEngines(t, 3)
	for i := range first {
		for _, e := range engines {
			mem := memory(t, e, 2*copyFrom)
			open = append(open, registerWindow(t, e, mem, 2*copyFrom))
			first[i] = append(first[i], mem)
		}
	}
	for r, e := range engines { // the others may still have work
		if _, usable := windowAt(t, e, first[0][r], 1); !usable {
			t.Fatal("not usable")
		}
	}
	engines[1].Abort(errors.New("a failure"))
	must(t, open[1].Close()) // of the aborted rank: the mappings stay until its engine closes
	for _, e := range engines {
		must(t, e.Close())
	}
	for _, w := range open {
		must(t, w.Close())
	}
	if got := share.Mapped(); got != before {
		t.Errorf("%d mappings, there were %d", got, before)
	}
	if _, err := engines[0].RegisterWindow(1<<20, 8); !errors.Is(err, algorithm.ErrAborted) {
		t.Errorf("after the end: %v", err)
	}
}
