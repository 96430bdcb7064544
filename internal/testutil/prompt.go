package testutil

import (
	"testing"
	"time"
)

// Prompt runs f, which does something and returns how long that took, and fails the test when it took longer than limit. A machine that is busy
// with something else gets more chances, three at least and as many as begin within twenty seconds, for the time alone: whatever else is wrong f
// reports itself.
func Prompt(t testing.TB, limit time.Duration, f func() time.Duration) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for attempt := 1; ; attempt++ {
		took := f()
		switch {
		case took <= limit || t.Failed():
			t.Logf("it took %v", took)
			return
		case attempt >= 3 && time.Now().After(end):
			t.Errorf("it took %v, want at most %v, %d times", took, limit, attempt)
			return
		}
	}
}
