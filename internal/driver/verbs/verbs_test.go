package verbs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// headers are where libibverbs-dev is: installed, or as `make rdma` unpacks it.
func headers() string {
	for _, dir := range []string{"/usr/include", "../../../.tools/rdma/root/usr/include"} {
		if _, err := os.Stat(filepath.Join(dir, "infiniband/verbs.h")); err == nil {
			return dir
		}
	}
	return ""
}

// TestLayouts compares api.h with the library's own header.
func TestLayouts(t *testing.T) {
	dir := headers()
	if dir == "" {
		t.Skip("there is no infiniband/verbs.h: install libibverbs-dev, or run make rdma, which unpacks it")
	}
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("there is no gcc")
	}
	print := func(header string) string {
		exe := filepath.Join(t.TempDir(), "layout")
		if out, err := exec.Command(cc, "-I.", "-isystem", dir, "-DHEADER="+header, "-o", exe, //nolint:gosec // a test
			"testdata/layout.c").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out, err := exec.Command(exe).Output() //nolint:gosec // a test
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	ours, theirs := strings.Split(print(`"api.h"`), "\n"), strings.Split(print("<infiniband/verbs.h>"), "\n")
	if len(ours) < 70 || len(ours) != len(theirs) {
		t.Fatalf("%d lines against %d", len(ours), len(theirs))
	}
	for i := range ours {
		if ours[i] != theirs[i] {
			t.Errorf("api.h: %s; verbs.h: %s", ours[i], theirs[i])
		}
	}
}

// TestWithoutLibrary expects a reason, with what to do, where there is no library.
func TestWithoutLibrary(t *testing.T) {
	err := Load()
	if err == nil {
		t.Skip("this machine has libibverbs")
	}
	if !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	if want := "rdma-core"; runtime.GOOS == "linux" && !strings.Contains(err.Error(), want) &&
		!strings.Contains(err.Error(), "cgo") {
		t.Errorf("%v: does not name %s", err, want)
	}
}
