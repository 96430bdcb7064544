package executor

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/goccl/goccl/plan"
)

// savedMutant is a line of a file of mutants.
type savedMutant struct {
	Name     string
	Messages []uint64
	Plan     json.RawMessage
}

// writeMutants returns a function for EachMutant that writes each mutant to a file.
func writeMutants(t *testing.T, path string) func(name string, q *plan.Plan, messages []uint64) {
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	lines := json.NewEncoder(file)
	return func(name string, q *plan.Plan, messages []uint64) {
		if err := lines.Encode(savedMutant{name, messages, q.Encode()}); err != nil {
			t.Fatal(err)
		}
	}
}

// readMutants calls f for the mutants in a file, until one fails.
func readMutants(t *testing.T, path string, f func(name string, q *plan.Plan, messages []uint64)) {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for lines, n := json.NewDecoder(file), 1; !t.Failed(); n++ {
		var m savedMutant
		if err := lines.Decode(&m); errors.Is(err, io.EOF) {
			t.Logf("%d mutants of %s", n-1, path)
			return
		} else if err != nil {
			t.Fatalf("%s, mutant %d: %v", path, n, err)
		}
		q, err := plan.Decode(m.Plan)
		if err != nil {
			t.Fatalf("%s, mutant %d, %s: %v", path, n, m.Name, err)
		}
		f(m.Name, q, m.Messages)
	}
}
