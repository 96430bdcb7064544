package core

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/testutil"
)

// meet starts n ranks with a unique id, as processes would.
func meet(t *testing.T, n int, cfg Config) []Handle {
	t.Helper()
	id, err := UniqueIDCreate(0)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]Handle, n)
	for r := range n {
		d, err := openDevice(device.Host, r)
		if err != nil {
			t.Fatal(err)
		}
		if out[r], err = CommStart(id, r, n, object[*Device](t, d), cfg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = CommAbort(out[r]) })
	}
	return out
}

// within is a context with a timeout.
func within(t *testing.T, timeout time.Duration) context.Context {
	ctx, stop := StepContext(timeout)
	t.Cleanup(stop)
	return ctx
}

// object is the object of a handle.
func object[T any](t *testing.T, h Handle) T {
	t.Helper()
	found, err := Find[T](h)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Ranks submit from their own goroutines while others query the communicator and one aborts.
func TestAbortWhileBusy(t *testing.T) {
	testutil.Prompt(t, 500*time.Millisecond, func() time.Duration { return abortWhileBusy(t) })
}

func abortWhileBusy(t *testing.T) (longest time.Duration) {
	const n = 3
	c := meet(t, n, Config{})
	send, _ := floats(t, 4096)
	var wg, up sync.WaitGroup
	stop := make(chan struct{})
	for r, h := range c {
		recv, _ := floats(t, 4096)
		up.Add(1)
		wg.Go(func() {
			err := CommWait(h)
			up.Done()
			if err != nil {
				t.Error(err)
				return
			}
			for {
				q := allReduce(h, send, recv, 4096)
				if err := Submit([]Request{q}); err != nil {
					if !errors.Is(err, goccl.ErrAborted) && !errors.Is(err, goccl.ErrPeerDead) && !errors.Is(err, goccl.ErrClosed) &&
						!errors.Is(err, ErrInvalidArgument) {
						t.Errorf("rank %d: %v", r, err)
					}
					return
				}
			}
		})
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_ = CommError(h)
				_, _ = CommInfoGet(h)
				time.Sleep(100 * time.Microsecond)
			}
		})
	}
	up.Wait()
	time.Sleep(50 * time.Millisecond)
	for _, h := range c {
		begin := time.Now()
		if err := CommAbort(h); err != nil {
			t.Error(err)
		}
		longest = max(longest, time.Since(begin))
	}
	close(stop)
	wg.Wait()
	if err := CommError(c[0]); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("after the abort: %v", err)
	}
	return longest
}

// A set-up with a missing rank stays in progress until it is cancelled.
func TestSetUpCalledOff(t *testing.T) {
	id, err := UniqueIDCreate(0)
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDevice(device.Host, 0)
	if err != nil {
		t.Fatal(err)
	}
	h, err := CommStart(id, 0, 2, object[*Device](t, d), Config{NonBlocking: true})
	if err != nil {
		t.Fatal(err)
	}
	if r := ResultOf(CommError(h)); r != InProgress {
		t.Errorf("it is %v", r)
	}
	p, _ := floats(t, 1)
	if err := Submit([]Request{allReduce(h, p, p, 1)}); ResultOf(err) != InvalidUsage {
		t.Errorf("a collective during set-up: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- CommWait(h) }()
	time.Sleep(10 * time.Millisecond)
	if err := CommAbort(h); err != nil {
		t.Error(err)
	}
	select {
	case err := <-waited:
		if ResultOf(err) != Aborted && !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("Wait: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("Wait goes on after the abort")
	}
	_ = id.Close()
}

// A missing rank gives an error that names it.
func TestMissingRank(t *testing.T) {
	id, err := UniqueIDCreate(0)
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDevice(device.Host, 0)
	if err != nil {
		t.Fatal(err)
	}
	h, err := CommStart(id, 0, 2, object[*Device](t, d), Config{Timeout: 700 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	err = CommWait(h)
	if ResultOf(err) != Timeout {
		t.Errorf("%v: %v", ResultOf(err), err)
	}
	if err := CommDestroy(h); err != nil {
		t.Error(err)
	}
}

// Operations wait until their timeout.
func TestOpTimeout(t *testing.T) {
	c := world(t, 2, Config{OpTimeout: 200 * time.Millisecond})
	p, _ := floats(t, 1)
	err := Submit([]Request{allReduce(c[0], p, p, 1)})
	if ResultOf(err) != Timeout {
		t.Errorf("%v: %v", ResultOf(err), err)
	}
	var ge *goccl.Error
	if !errors.As(err, &ge) || ge.Peer != 1 || ge.Seq != 1 || ge.Op != "all_reduce" {
		t.Errorf("the error does not say who and what: %v", err)
	}
	if ResultOf(CommError(c[0])) != Timeout {
		t.Errorf("the communicator's error: %v", CommError(c[0]))
	}
}
