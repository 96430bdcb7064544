package testutil

import (
	"testing"
	"time"

	"github.com/goccl/goccl/test/leak"
)

// Watch is a leak.Watch of a test.
type Watch struct{ *leak.Watch }

// NewWatch starts watching. The end of the test stops it, if NothingLeft has not done so.
func NewWatch(t testing.TB) Watch {
	w := leak.NewWatch(20 * time.Millisecond)
	t.Cleanup(w.End)
	return Watch{w}
}

// NothingLeft fails the test if Leftovers finds something.
func (w Watch) NothingLeft(t testing.TB, groups ...int) {
	t.Helper()
	if err := w.Leftovers(groups...); err != nil {
		t.Error(err)
	}
}
