package mockcuda

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
)

// Without the mock, tests that need it are skipped, hundreds of them. In the source tree, with a compiler, that must
// not happen.
func TestBuild(t *testing.T) {
	if err := Build(filepath.Join(t.TempDir(), "libmockcuda.so")); errors.Is(err, exec.ErrNotFound) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// Elsewhere it says why there is none.
func TestBuildElsewhere(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := Build(filepath.Join(t.TempDir(), "libmockcuda.so")); err == nil {
		t.Error("the mock is built without sources")
	}
}
