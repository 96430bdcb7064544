package testutil

import (
	"testing"
	"time"
)

// Prompt runs f, which returns the duration of an operation, and fails the test when that exceeds limit. It repeats f
// on a busy machine, at least three times and for as long as a run begins within twenty seconds. f reports all other
// errors itself.
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
