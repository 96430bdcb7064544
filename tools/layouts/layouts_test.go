package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A fresh run of the generator writes what the committed files hold.
func TestFilesAreCurrent(t *testing.T) {
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets {
		want, err := target.generate(root)
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(filepath.Join(root, target.folder, file))
		if err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s: run go generate there (%v)", target.folder, err)
		}
	}
}

// What a header does not have is an error, and so is a type that is not wanted.
func TestWhatIsNotThere(t *testing.T) {
	root := t.TempDir()
	text := []byte("struct a {\n\tstruct b x; // of b\n};\n")
	if err := os.WriteFile(filepath.Join(root, "a.h"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, wanted := range [][][2]string{{{"a", "A"}}, {{"b", "B"}}} {
		if text, err := (target{headers: []string{"a.h"}, wanted: wanted}).generate(root); err == nil {
			t.Errorf("%v is generated: %s", wanted, text)
		}
	}
}
