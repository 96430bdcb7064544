package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file, pipe, link := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("12345"), 0o600), syscall.Mkfifo(pipe, 0o600),
		os.Symlink("/dev/zero", link)); err != nil {
		t.Fatal(err)
	}
	if b, err := Read(file, 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	for path, want := range map[string]string{pipe: "not a regular file", link: "not a regular file",
		"/dev/zero": "not a regular file", dir: "is a folder"} {
		if _, err := Read(path, 5); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := Read(file, 4); err == nil || !strings.Contains(err.Error(), "longer than 4 bytes") {
		t.Error(err)
	}
	if _, err := Read(filepath.Join(dir, "none"), 4); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	// A file of /proc reports size 0.
	if b, err := Read("/proc/self/status", 1<<20); err != nil || len(b) == 0 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
