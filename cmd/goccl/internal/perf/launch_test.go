package perf

import (
	"bytes"
	"context"
	"testing"
)

// Of ranks that fail for the same reason one says so, and none that an interruption ends.
func TestErrorWriter(t *testing.T) {
	var got bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	w := NewErrorWriter(ctx, &got)
	for _, line := range []string{"[0] goccl: a\n", "[1] goccl: a\n", "[1] goccl: b\n", "[0] words\n", "[1] words\n"} {
		if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	cancel()
	for _, line := range []string{"[1] goccl: c\n", "[1] more\n"} {
		if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := "[0] goccl: a\n[1] goccl: b\n[0] words\n[1] words\n[1] more\n"; got.String() != want {
		t.Errorf("%q, want %q", got.String(), want)
	}
}
