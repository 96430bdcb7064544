package testutil

import (
	"testing"
	"time"
)

// Prompt runs f, which does something and returns how long that took, and fails the test when it took longer than limit. A machine that is busy
// with something else gets a second and a third chance, for the time alone: whatever else is wrong f reports itself.
func Prompt(t testing.TB, limit time.Duration, f func() time.Duration) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		took := f()
		switch {
		case took <= limit || t.Failed():
			t.Logf("it took %v", took)
			return
		case attempt == 3:
			t.Errorf("it took %v, want at most %v, three times", took, limit)
			return
		}
	}
}
