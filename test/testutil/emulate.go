package testutil

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Emulator compiles testdata/emulate.cpp of a package two folders below the root, which runs kernels of a group as CPU
// threads, and returns the program. extra are arguments of the compiler.
func Emulator(t testing.TB, group string, extra ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("long, and no Go")
	}
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("no C++ compiler: ", err)
	}
	const kernels = "../../kernels/"
	for _, pattern := range []string{"testdata/*", kernels + group + "/*.cu*", kernels + "include/goccl/*",
		kernels + "internal/hosttest/testdata/*.hpp"} {
		paths, err := filepath.Glob(pattern) // reading these files keeps go test from reusing a cached result
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, p := range paths {
			if _, err := os.ReadFile(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	out := filepath.Join(t.TempDir(), "emulate")
	args := append([]string{"-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-Wno-unknown-pragmas",
		"-Wno-array-bounds", "-Wno-maybe-uninitialized", "-I" + kernels + "include", "-I" + kernels, "-include",
		kernels + "internal/hosttest/testdata/emulate.hpp", "-O1", "-pthread"}, extra...)
	if text, err := exec.Command("g++", append(args, "-o", out, "testdata/emulate.cpp")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}
