package regular

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Save replaces regular files and writes to everything else in place.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("old"), []byte("a longer text"), 0o600),
		os.WriteFile(at("target"), nil, 0o600), os.Symlink("target", at("link")), os.Symlink("/dev/null", at("null")),
		syscall.Mkfifo(at("pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(at("pipe"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	var stdout bytes.Buffer
	for _, c := range []struct {
		path  string
		whole bool
		mode  os.FileMode
	}{
		{at("new"), true, 0o644}, {at("old"), true, 0o600}, {at("link"), false, os.ModeSymlink | 0o777},
		{at("null"), false, os.ModeSymlink | 0o777}, {at("pipe"), false, os.ModeNamedPipe | 0o600},
	} {
		whole, err := Check(c.path)
		if err == nil {
			err = Save(c.path, []byte("text"), &stdout)
		}
		if err != nil || whole != c.whole {
			t.Errorf("%s: %v, %v", c.path, whole, err)
		}
		if info, err := os.Lstat(c.path); err != nil || info.Mode() != c.mode {
			t.Errorf("%s: %v, %v", c.path, info.Mode(), err)
		}
	}
	for _, name := range []string{"new", "old", "target"} {
		if b, err := os.ReadFile(at(name)); err != nil || string(b) != "text" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	b := make([]byte, 4)
	if _, err := io.ReadFull(pipe, b); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
	for _, path := range []string{"-", "/dev/stdout"} {
		if whole, err := Check(path); whole || err != nil {
			t.Errorf("%s: %v, %v", path, whole, err)
		}
		if err := Save(path, []byte("+"), &stdout); err != nil {
			t.Error(err)
		}
	}
	if stdout.String() != "++" {
		t.Errorf("%q", stdout.String())
	}
	for _, path := range []string{dir, at("none/file"), at("new/file")} {
		if _, err := Check(path); err == nil {
			t.Errorf("%s can be written?", path)
		}
	}
	if left, err := filepath.Glob(at(".*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}
