package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/test/testutil"
)

// TestMissingRanks: every rank's error names the missing ranks. The root sends the list four times a second to the
// ranks that have joined.
func TestMissingRanks(t *testing.T) {
	t.Parallel()
	id, err := NewUniqueID(WithInterface("lo"), quiet())
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 2)
	for r := range 2 {
		go func() {
			errs <- errOf(JoinID(context.Background(), id, r, 3, quiet(), WithTimeout(time.Duration(3+r)*time.Second)))
		}()
	}
	for range 2 {
		err := <-errs
		var e *Error
		if !errors.Is(err, ErrTimeout) || !errors.As(err, &e) || e.Peer != 2 || !strings.Contains(err.Error(), "[2]") {
			t.Errorf("got %v", err)
		}
	}
	if err := id.Close(); err != nil {
		t.Error(err)
	}
}

func TestNobodyAtTheRoot(t *testing.T) {
	t.Parallel()
	nowhere := fmt.Sprintf("unix:@goccl-test-nobody-%x", processID())
	err := errOf(JoinAddress(context.Background(), nowhere, 1, 2, quiet(), WithTimeout(300*time.Millisecond)))
	if !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := errOf(JoinAddress(ctx, nowhere, 1, 2, quiet())); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	unused, err := NewUniqueID(WithInterface("lo"), quiet(), WithRootLifetime(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if r := liveRoot(unused); r != nil {
		select {
		case <-r.done:
		case <-time.After(30 * time.Second):
			t.Error("an unused root does not end")
		}
	}
}

// TestRootSaysItsRank: an admitted rank knows at once which rank is in the root's process, before any status.
func TestRootSaysItsRank(t *testing.T) {
	t.Parallel()
	id, err := NewUniqueID(WithInterface("lo"), quiet())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- errOf(JoinID(ctx, id, 1, 3, quiet())) }()
	f, err := id.decode()
	if err != nil {
		t.Fatal(err)
	}
	r := liveRoot(id)
	for pinned := false; !pinned && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		pinned = r.a.pinned
		r.mu.Unlock()
	}
	d := &dialer{secret: f.secret[:]}
	fc, them, err := d.dial(ctx, f.targets(),
		greeting{role: roleJoiner, world: 3, rank: 2, target: -1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if them.rank != 1 {
		t.Errorf("the root greets as rank %d", them.rank)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("joined")
	}
	fc.close()
	if err := id.Close(); err != nil {
		t.Error(err)
	}
}

// TestNothingLeaksOnFailure fails joins in several ways.
func TestNothingLeaksOnFailure(t *testing.T) {
	address := fmt.Sprintf("127.0.0.1:%d", testutil.Port(t))
	run := func() {
		id, err := NewUniqueID(WithInterface("lo"), quiet())
		if err != nil {
			t.Fatal(err)
		}
		r := liveRoot(id)
		var wg sync.WaitGroup
		for rank := range 3 {
			wg.Go(func() {
				opts := []Option{quiet(), WithTimeout(100 * time.Millisecond)}
				if err := errOf(JoinID(context.Background(), id, rank, 4, opts...)); err == nil {
					t.Error("joined without rank 3")
				}
			})
		}
		wg.Wait()
		_ = id.Close() // otherwise it waits for rank 3, to send the failure
		<-r.done
		if _, err := JoinAddress(context.Background(), address, 0, 2, quiet(),
			WithTimeout(50*time.Millisecond)); err == nil {
			t.Error("joined alone")
		}
	}
	run()
	goroutines, fds := settled(0, 0)
	for range 3 {
		run()
	}
	if g, f := settled(goroutines, fds); g > goroutines || f > fds {
		t.Fatalf("goroutines %d → %d, descriptors %d → %d", goroutines, g, fds, f)
	}
}
