package hosttest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccl/goccl/test/testutil"
)

// TestPromises finds out which promise the sums of each algorithm of GPUs keep: docs/exact.md shows it.
func TestPromises(t *testing.T) {
	t.Parallel()
	out, ok := run(t, build(t, "order", "-O1", "-pthread", "-I"+collectiveHeaders(t)))
	if !ok {
		t.Fatal(out)
	}
	levels := []string{"none", "run", "batch", "reference"}
	var found []testutil.Promise
	for line := range strings.Lines(out) {
		algorithm, level, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !slices.Contains(levels, level) {
			t.Fatal(out)
		}
		i := slices.IndexFunc(found, func(p testutil.Promise) bool { return p.Algorithm == algorithm })
		if i < 0 {
			i = len(found)
			found = append(found, testutil.Promise{Where: "GPUs of one host, more than two", Algorithm: algorithm, Level: level})
		}
		if slices.Index(levels, level) < slices.Index(levels, found[i].Level) {
			found[i].Level = level
		}
	}
	testutil.ComparePromises(t, found, os.Getenv("GOCCL_UPDATE_GOLDEN") != "")
}
