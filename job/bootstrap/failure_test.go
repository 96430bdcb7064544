package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// mortal runs f over both kinds of group, with a function that makes one rank vanish without a goodbye.
func mortal(t *testing.T, n int, f func(t *testing.T, bs []Bootstrap, kill func(rank int))) {
	t.Run("local", func(t *testing.T) {
		l := NewLocal(n, quiet(), WithTimeout(30*time.Second))
		defer closeAll(l.Ranks)
		f(t, l.Ranks, l.Kill)
	})
	t.Run("tcp", func(t *testing.T) {
		bs := tcpGroup(t, n, WithTimeout(30*time.Second))
		f(t, bs, func(rank int) { abort(bs[rank]) })
	})
	t.Run("sparse", func(t *testing.T) {
		bs := tcpGroup(t, n, WithTimeout(30*time.Second), asLarge)
		f(t, bs, func(rank int) { abort(bs[rank]) })
	})
}

// abort closes a rank's connections, as the kernel does for a killed process.
func abort(b Bootstrap) {
	e := b.(*group).e
	e.abandon(ErrClosed)
	for _, l := range e.t.(*overlay).all() {
		l.fc.close()
	}
	e.t.stop() // frees the rest, as the kernel does for a process
}

func wantDead(err error, rank int) error {
	var e *Error
	if !errors.Is(err, ErrPeerDead) || !errors.As(err, &e) || e.Peer != rank {
		return fmt.Errorf("got %v, want that rank %d is dead", err, rank)
	}
	return nil
}

func survivors(bs []Bootstrap, dead ...int) []Bootstrap {
	var out []Bootstrap
	for r, b := range bs {
		if !slices.Contains(dead, r) {
			out = append(out, b)
		}
	}
	return out
}

func TestDeathEndsWaits(t *testing.T) {
	mortal(t, 4, func(t *testing.T, bs []Bootstrap, kill func(int)) {
		ctx := context.Background()
		if err := bs[2].Send(ctx, 0, 1, []byte("last words")); err != nil {
			t.Fatal(err)
		}
		if err := bs[2].Send(ctx, 0, 2, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := bs[0].Recv(ctx, 2, 2); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(50*time.Millisecond, func() { kill(2) })
		each(t, survivors(bs, 2), func(b Bootstrap) error {
			switch b.Rank() {
			case 0: // waits for a third rank in a collective that can no longer complete
				_, err := b.AllGather(ctx, nil)
				return wantDead(err, 2)
			case 1:
				_, err := b.Recv(ctx, 2, 0)
				return wantDead(err, 2)
			}
			return nil
		})
		each(t, survivors(bs, 2), func(b Bootstrap) error {
			failures := b.Failures()
			select {
			case f := <-failures:
				if f.Rank != 2 {
					return fmt.Errorf("failure %+v", f)
				}
				if err := wantDead(f.Err, 2); err != nil {
					return err
				}
			case <-time.After(30 * time.Second):
				return errors.New("no failure reported")
			}
			if err := wantDead(b.Send(ctx, 2, 0, nil), 2); err != nil {
				return err
			}
			// Once only.
			select {
			case f := <-failures:
				return fmt.Errorf("a second report: %+v", f)
			case <-time.After(20 * time.Millisecond):
			}
			// The others can still communicate.
			for p := range 4 {
				if p != 2 {
					if err := b.Send(ctx, p, 9, []byte{byte(b.Rank())}); err != nil {
						return err
					}
				}
			}
			for p := range 4 {
				if p != 2 {
					if got, err := b.Recv(ctx, p, 9); err != nil || got[0] != byte(p) {
						return fmt.Errorf("from %d: %v, %v", p, got, err)
					}
				}
			}
			return nil
		})
		if got, err := bs[0].Recv(ctx, 2, 1); err != nil || string(got) != "last words" {
			t.Errorf("what the dead rank sent before: %q, %v", got, err)
		}
		if _, err := bs[0].Recv(ctx, 2, 1); wantDead(err, 2) != nil {
			t.Error(err)
		}
		if err := bs[2].Send(ctx, 0, 0, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("the dead rank itself: %v", err)
		}
	})
}

// A connection could not be made again before its deadline: the peer is dead, and Serve ends.
func TestDeathAfterDeadline(t *testing.T) {
	b := farGroup(t, 2)[0]
	late, stop := context.WithDeadline(context.Background(), time.Now())
	defer stop()
	ctx, end := context.WithTimeout(context.Background(), time.Minute)
	defer end()
	ended := make(chan error, 1)
	var tasks sync.WaitGroup
	Serve(ctx, &tasks, b, 5, func(int, []byte) error { return nil }, func(_ int, err error) { ended <- err })
	groupOf(b).e.lost(1, fmt.Errorf("connection lost: %w", contextError(late)))
	tasks.Wait()
	if err := <-ended; !errors.Is(err, ErrPeerDead) || errors.Is(err, ErrTimeout) {
		t.Errorf("Serve ended with %v, want ErrPeerDead and no timeout", err)
	}
}

// receives counts the calls of Recv, and refuses the tenth.
type receives struct {
	Bootstrap
	calls int
}

func (r *receives) Recv(ctx context.Context, peer, tag int) ([]byte, error) {
	if r.calls++; r.calls == 10 {
		return nil, ErrClosed
	}
	return r.Bootstrap.Recv(ctx, peer, tag)
}

// Serve waits for a silent rank without a pause that the step timeout sets, and ends when the rank gives up, also for a
// timeout.
func TestServeSilentRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bs := NewLocal(2, quiet(), WithTimeout(time.Second)).Ranks
		defer closeAll(bs)
		ctx, end := context.WithCancel(t.Context())
		b, ended := &receives{Bootstrap: bs[0]}, error(nil)
		var tasks sync.WaitGroup
		Serve(ctx, &tasks, b, 5, nil, func(_ int, err error) { ended = err })
		time.Sleep(time.Hour)
		if synctest.Wait(); b.calls != 1 {
			t.Errorf("%d receives in an hour of silence, want 1", b.calls)
		}
		time.AfterFunc(time.Hour, end)
		GiveUp(bs[1], -1, fmt.Errorf("%w: too late", ErrTimeout))
		if tasks.Wait(); !errors.Is(ended, ErrGaveUp) {
			t.Errorf("Serve ended with %v, want ErrGaveUp", ended)
		}
	})
}

func TestCloseIsNoFailure(t *testing.T) {
	mortal(t, 3, func(t *testing.T, bs []Bootstrap, _ func(int)) {
		ctx := context.Background()
		if err := bs[1].Send(ctx, 0, 5, []byte("bye")); err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error, 1)
		go func() {
			_, err := bs[0].Recv(ctx, 1, 6)
			waiting <- err
		}()
		time.Sleep(20 * time.Millisecond)
		for range 2 {
			if err := bs[1].Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-waiting; !errors.Is(err, ErrClosed) || errors.Is(err, ErrPeerDead) {
			t.Error(err)
		}
		if got, err := bs[0].Recv(ctx, 1, 5); err != nil || string(got) != "bye" {
			t.Errorf("what was sent before Close: %q, %v", got, err)
		}
		if err := bs[0].Send(ctx, 1, 0, nil); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := bs[1].Barrier(ctx); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if _, err := bs[1].Sub(ctx, []int{1}, 0); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if _, ok := <-bs[1].Failures(); ok {
			t.Error("Failures is open after Close")
		}
		select {
		case f, ok := <-bs[0].Failures():
			t.Errorf("reported %+v, %v", f, ok)
		case <-time.After(50 * time.Millisecond):
		}
	})
}

func TestCloseEndsOwnWaits(t *testing.T) {
	implementations(t, 2, func(t *testing.T, bs []Bootstrap) {
		done := make(chan error, 2)
		go func() {
			_, err := bs[0].Recv(context.Background(), 1, 0)
			done <- err
		}()
		go func() { done <- bs[0].Barrier(context.Background()) }()
		time.Sleep(20 * time.Millisecond)
		_ = bs[0].Close()
		for range 2 {
			if err := <-done; !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
	})
}

func TestDeadlineAndCancel(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, bs []Bootstrap) {
		_, err := bs[0].AllGather(context.Background(), nil)
		var e *Error
		if !errors.Is(err, ErrTimeout) || !errors.As(err, &e) || e.Peer != -1 || e.Op != "AllGather" {
			t.Errorf("nobody came: %v", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(20*time.Millisecond, cancel)
		if _, err := bs[0].Recv(ctx, 1, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if _, err := bs[0].Recv(ctx, 1, 0); !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's deadline: %v", err)
		}
		// A message for a wait that was given up goes to the next wait.
		if err := bs[1].Send(context.Background(), 0, 0, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if got, err := bs[0].Recv(context.Background(), 1, 0); err != nil || string(got) != "x" {
			t.Errorf("got %q, %v", got, err)
		}
		go func() { _ = bs[1].Barrier(context.Background()) }()
		err = bs[0].Barrier(context.Background())
		if !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrProtocol) {
			t.Errorf("one of two came: %v", err)
		}
	}
	t.Run("local", func(t *testing.T) { check(t, NewLocal(3, WithTimeout(time.Second)).Ranks) })
	t.Run("tcp", func(t *testing.T) {
		bs := tcpGroup(t, 3)
		for _, b := range bs {
			b.(*group).e.timeout = time.Second
		}
		check(t, bs)
	})
}

func TestMismatchedCollectives(t *testing.T) {
	implementations(t, 2, func(t *testing.T, bs []Bootstrap) {
		each(t, bs, func(b Bootstrap) error {
			err := b.Barrier(context.Background())
			if b.Rank() == 1 {
				return err
			}
			return err
		})
		each(t, bs, func(b Bootstrap) error {
			var err error
			if b.Rank() == 0 {
				err = b.Barrier(context.Background())
			} else {
				_, err = b.AllGather(context.Background(), []byte("x"))
			}
			var e *Error
			if !errors.Is(err, ErrProtocol) || !errors.As(err, &e) || e.Peer != 1-b.Rank() {
				return fmt.Errorf("got %v", err)
			}
			return nil
		})
	})
}

func TestArguments(t *testing.T) {
	b := NewLocalGroup(2)[0]
	ctx := context.Background()
	for _, p := range []int{-1, 2} {
		if err := b.Send(ctx, p, 0, nil); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
		if _, err := b.Recv(ctx, p, 0); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
	}
	for _, ranks := range [][]int{{}, {1}, {0, 2}, {0, -1}, {0, 0}} {
		if _, err := b.Sub(ctx, ranks, 0); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", ranks, err)
		}
	}
	if _, err := b.AllGather(ctx, make([]byte, MaxMessage+1)); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	for _, rank := range []int{-1, 2} {
		if _, err := JoinID(ctx, UniqueID{}, rank, 2); !errors.Is(err, ErrRankRange) {
			t.Error(err)
		}
	}
	if err := errOf(JoinAddress(ctx, "x", 0, 0)); !errors.Is(err, ErrWorldSize) {
		t.Error(err)
	}
}
