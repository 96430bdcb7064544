package testutil

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Promise is how far the bits of an algorithm's sums can be relied on: a value of setting.Exact.
type Promise struct{ Where, Algorithm, Level string }

// ComparePromises compares what a test has found with testdata/promises.json of its package, which docs/exact.md shows.
// With update, which GOCCL_UPDATE_GOLDEN=1 asks for, it writes the file.
func ComparePromises(t testing.TB, found []Promise, update bool) {
	t.Helper()
	const file = "testdata/promises.json"
	text, err := json.MarshalIndent(found, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != string(text) {
		t.Errorf("the promises differ from %s (%v): let this test update the file, then go generate ./tools/docgen, and "+
			"look at the change in docs/exact.md\n%s", file, err, text)
	}
}
