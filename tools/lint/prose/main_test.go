package main

import (
	"slices"
	"testing"
)

func TestFind(t *testing.T) {
	text := `package x // the size is that of a slot
var a = "counts of all ranks but one"
// Every rank knows what it has, and as many peers.
const those = "of"; f := "plain" // what follows is allowed
/* a block of its own
 * those of another */
`
	want := []string{`1: "that of"`, `2: "all ranks but"`, `3: "what it has"`, `3: "as many"`, `5: "of its own"`,
		`6: "those of"`}
	if found := find(text, slashes); !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	if found := find("x = 1  # all alike\ny = 'those of'\n", hashes); !slices.Equal(found, []string{`1: "alike"`}) {
		t.Errorf("Python: %q", found)
	}
}
