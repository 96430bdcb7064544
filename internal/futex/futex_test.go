package futex_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/futex"
)

func TestWaitReturnsWhenTheWordDiffers(t *testing.T) {
	var w atomic.Uint32
	w.Store(7)
	if err := futex.Wait(&w, 6, 0); err != nil {
		t.Fatalf("Wait on a stale value: %v", err)
	}
}

func TestWaitTimesOut(t *testing.T) {
	var w atomic.Uint32
	start := time.Now()
	if err := futex.Wait(&w, 0, 20*time.Millisecond); !errors.Is(err, fault.ErrTimeout) {
		t.Fatalf("got %v, want ErrTimeout", err)
	}
	if d := time.Since(start); d < 15*time.Millisecond {
		t.Fatalf("timed out after %v, want 20 ms", d)
	}
}

func TestWakeReachesEverySleeper(t *testing.T) {
	var w, asleep atomic.Uint32
	var wg sync.WaitGroup
	const n = 4
	for range n {
		wg.Go(func() {
			asleep.Add(1)
			for w.Load() == 0 {
				if err := futex.Wait(&w, 0, 5*time.Second); err != nil {
					t.Errorf("Wait: %v", err)
					return
				}
			}
		})
	}
	for asleep.Load() < n {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	w.Store(1)
	if _, err := futex.Wake(&w, futex.All); err != nil {
		t.Fatalf("Wake: %v", err)
	}
	wg.Wait()
}
