package commtest

import (
	"testing"

	"github.com/goccl/goccl/internal/fdshare"
	"github.com/goccl/goccl/test/leak"
)

// NoLeak fails t if the process holds more resources at the end of t than now.
func NoLeak(t *testing.T) {
	t.Helper()
	if _, err := fdshare.Shared(); err != nil { // it lives as long as the process
		t.Fatal(err)
	}
	base := leak.Held()
	t.Cleanup(func() {
		if r := leak.Settled(base); r.More(base) {
			t.Errorf("left behind: %v, before %v\n%s", r, base, r.Detail)
		}
	})
}
