package sysfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestRoot(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a/speed": " 400\n", "a/limit": "max\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := Root(dir)
	if r.Read("a", "limit") != "max" || r.Read("a/none") != "" {
		t.Error("Read")
	}
	if r.Number(-1, "a", "speed") != 400 || r.Number(-1, "a", "limit") != -1 || r.Number(7, "none") != 7 {
		t.Error("Number")
	}
	if got := r.Names("a"); !slices.Equal(got, []string{"limit", "speed"}) || len(r.Names("none")) != 0 {
		t.Errorf("Names: %v", got)
	}
	if err := os.Symlink("a", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if got := r.Resolve("link", "speed"); filepath.Base(filepath.Dir(got)) != "a" || r.Resolve("none") != "" {
		t.Errorf("Resolve: %q", got)
	}
}
