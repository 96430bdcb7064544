package wallclock_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/test/wallclock"
)

// The wall clock jumps; the monotonic clock, timers and deadlines do not.
func TestJump(t *testing.T) {
	before := time.Now()
	timer := time.After(20 * time.Millisecond)
	if err := wallclock.Jump(time.Hour); err != nil {
		if runtime.GOARCH != "amd64" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	after := time.Now()
	if d := after.UnixNano() - before.UnixNano(); d < int64(time.Hour) || d > int64(time.Hour+30*time.Minute) {
		t.Errorf("the wall clock jumped by %v", time.Duration(d))
	}
	if d := after.Sub(before); d < 0 || d > 30*time.Minute {
		t.Errorf("the monotonic clock jumped by %v", d)
	}
	<-timer
	if d := time.Since(before); d < 20*time.Millisecond || d > 30*time.Minute {
		t.Errorf("a timer of 20 ms took %v", d)
	}
	if err := wallclock.Jump(-2 * time.Hour); err != nil {
		t.Fatal(err)
	}
	if d := time.Until(before.Round(0)); d < 30*time.Minute {
		t.Errorf("the wall clock is %v before its start", d)
	}
	var wg sync.WaitGroup
	for range 8 { // on many threads, also while their stacks grow and are preempted
		wg.Go(func() {
			for last := time.Now(); last.Sub(before) < 200*time.Millisecond; {
				now := time.Now()
				if now.Before(last) {
					t.Error("monotonic time goes back")
				}
				last = now
			}
		})
	}
	wg.Wait()
}
