package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLoad finds declarations that only cgo has, in the package and in one that it imports.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module m\ngo 1.26\n",
		"a/a.go":    "package a; import \"m/b\"; var A = b.B",
		"b/b.go":    "package b; const C = 1",
		"b/cgo.go":  "//go:build cgo\n\npackage b; const B = 1",
		"c/c.go":    "package c; import \"m/d\"; var C = d.D",
		"d/d.go":    "//go:build cgo\n\npackage d; const D = 1",
		"d/none.go": "//go:build !cgo\n\npackage d; const D = 2",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOFLAGS", "-mod=mod")
	for path, want := range map[string]int{"./a": 1, "./c": 0} {
		list, err := load(dir, []string{path})
		if err != nil || len(list) != 1 || len(list[0].Errors) != want {
			t.Errorf("%s: %v, %v, want %d errors", path, list[0].Errors, err, want)
		}
	}
}
