package bootstrap

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/test/testutil"
)

// quiet drops the log of refusals and deaths that a test provokes.
func quiet() Option { return WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))) }

// errOf is the error of a call whose result does not matter.
func errOf(_ Bootstrap, err error) error { return err }

// tcpGroup joins n ranks in this process over sockets.
func tcpGroup(t testing.TB, n int, opts ...Option) []Bootstrap {
	t.Helper()
	opts = append([]Option{quiet(), WithInterface("lo")}, opts...)
	id, err := NewUniqueID(opts...)
	if err != nil {
		t.Fatal(err)
	}
	bs := make([]Bootstrap, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() {
			bs[r], errs[r] = JoinID(context.Background(), id, r, n, opts...)
		})
	}
	wg.Wait()
	for r, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
	t.Cleanup(func() { closeAll(bs) })
	return bs
}

func closeAll(bs []Bootstrap) {
	var wg sync.WaitGroup
	for _, b := range bs {
		if b != nil {
			wg.Go(func() { _ = b.Close() })
		}
	}
	wg.Wait()
}

// each runs f for every rank at once and fails the test on an error.
func each(t testing.TB, bs []Bootstrap, f func(b Bootstrap) error) {
	t.Helper()
	errs := make([]error, len(bs))
	var wg sync.WaitGroup
	for i, b := range bs {
		wg.Go(func() { errs[i] = f(b) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
}

// implementations runs f over both kinds of group.
func implementations(t *testing.T, n int, f func(t *testing.T, bs []Bootstrap)) {
	t.Run("local", func(t *testing.T) {
		bs := NewLocal(n, quiet()).Ranks
		defer closeAll(bs)
		f(t, bs)
	})
	t.Run("tcp", func(t *testing.T) { f(t, tcpGroup(t, n)) })
	t.Run("sparse", func(t *testing.T) { f(t, tcpGroup(t, n, asLarge)) })
}

// asLarge gives a small job the overlay of a large one.
func asLarge(c *config) { c.sparseFrom = 1 }

func TestCollectives(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		implementations(t, n, func(t *testing.T, bs []Bootstrap) {
			each(t, bs, func(b Bootstrap) error {
				for i := range 5 {
					part := bytes.Repeat([]byte{byte(b.Rank())}, b.Rank()*i)
					all, err := b.AllGather(context.Background(), part)
					if err != nil {
						return err
					}
					for r, got := range all {
						if !bytes.Equal(got, bytes.Repeat([]byte{byte(r)}, r*i)) {
							return fmt.Errorf("round %d: part of rank %d is %v", i, r, got)
						}
					}
					if err := b.Barrier(context.Background()); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

func TestSendRecvAnyOrder(t *testing.T) {
	implementations(t, 4, func(t *testing.T, bs []Bootstrap) {
		ctx := context.Background()
		each(t, bs, func(b Bootstrap) error {
			for p := range b.WorldSize() {
				for tag := range 3 {
					for i := range 2 {
						if err := b.Send(ctx, p, tag-1, fmt.Appendf(nil, "%d %d %d %d", b.Rank(), p, tag-1, i)); err != nil {
							return err
						}
					}
				}
			}
			for tag := 2; tag >= 0; tag-- {
				for p := b.WorldSize() - 1; p >= 0; p-- {
					for i := range 2 {
						got, err := b.Recv(ctx, p, tag-1)
						if err != nil {
							return err
						}
						if want := fmt.Sprintf("%d %d %d %d", p, b.Rank(), tag-1, i); string(got) != want {
							return fmt.Errorf("got %q, want %q", got, want)
						}
					}
				}
			}
			return nil
		})
	})
}

func TestLargeMessages(t *testing.T) {
	implementations(t, 2, func(t *testing.T, bs []Bootstrap) {
		ctx := context.Background()
		big := bytes.Repeat([]byte("0123456789abcdef"), MaxMessage/16)
		each(t, bs, func(b Bootstrap) error {
			if err := b.Send(ctx, 1-b.Rank(), 0, big); err != nil {
				return err
			}
			got, err := b.Recv(ctx, 1-b.Rank(), 0)
			if err == nil && !bytes.Equal(got, big) {
				err = fmt.Errorf("%d bytes differ", len(got))
			}
			return err
		})
		if err := bs[0].Send(ctx, 1, 0, make([]byte, MaxMessage+1)); err == nil {
			t.Fatal("a message over the limit was sent")
		}
	})
}

func TestJoinIsFast(t *testing.T) {
	var bs []Bootstrap
	testutil.Prompt(t, time.Second, func() time.Duration {
		start := time.Now()
		bs = tcpGroup(t, 8)
		return time.Since(start)
	})
	start := time.Now()
	each(t, bs, func(b Bootstrap) error {
		for range 100 {
			if err := b.Barrier(context.Background()); err != nil {
				return err
			}
		}
		return nil
	})
	t.Logf("a barrier takes %v", time.Since(start)/100)
}

// TestNothingLeaks compares goroutines and descriptors before and after.
func TestNothingLeaks(t *testing.T) {
	run := func() {
		bs := tcpGroup(t, 4)
		each(t, bs, func(b Bootstrap) error { return b.Barrier(context.Background()) })
		closeAll(bs)
	}
	run() // warm up the poller and the resolver
	goroutines, fds := settled(0, 0)
	for range 3 {
		run()
	}
	if g, f := settled(goroutines, fds); g > goroutines || f > fds {
		buf := make([]byte, 1<<20)
		t.Fatalf("goroutines %d → %d, descriptors %d → %d\n%s", goroutines, g, fds, f, buf[:runtime.Stack(buf, true)])
	}
}

func TestMostAlike(t *testing.T) {
	keys := []string{"a", "b", "a", "c", "a"}
	var ranks sync.WaitGroup
	for r, b := range NewLocalGroup(len(keys)) {
		ranks.Go(func() {
			if n, err := MostAlike(context.Background(), b, keys[r]); n != 3 || err != nil {
				t.Errorf("rank %d: %d, %v, want 3", r, n, err)
			}
		})
	}
	ranks.Wait()
}

func TestLocalGroupsHaveRanks(t *testing.T) {
	for _, n := range []int{-1, 0, MaxWorldSize + 1} {
		func() {
			defer func() {
				if p := recover(); !strings.Contains(fmt.Sprint(p), "want 1 to") {
					t.Errorf("%d ranks: %v", n, p)
				}
			}()
			NewLocalGroup(n)
		}()
	}
}
