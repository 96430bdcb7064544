//go:build cgo && linux

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/test/mockcuda"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

// libraries returns the directory with the libraries, which make builds unless they are there: `make test` does so
// before.
func libraries(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"gcc", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: %v", tool, err)
		}
	}
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var built = sync.OnceValues(func() (string, error) {
	argv := []string{"make", "-C", ".."}
	for _, lib := range []string{"libgoccl.so", "libnccl.so.2", "libmscclpp.so", "libgoccl-profiler.so"} {
		argv = append(argv, "build/"+lib)
		_, _ = os.Stat("../build/" + lib) // go test takes no cached result for another library
	}
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", argv, err, out)
	}
	return filepath.Abs("../build")
})

// program compiles testdata/name.c against libnccl.so.2.
func program(t *testing.T, name string) string {
	t.Helper()
	dir := libraries(t)
	exe := filepath.Join(t.TempDir(), name)
	out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers",
		"-Wno-enum-conversion", "-o", exe,
		filepath.Join("testdata", name+".c"), filepath.Join(dir, "libnccl.so.2"), "-lpthread", "-lm", "-ldl").CombinedOutput()
	if err != nil {
		t.Fatalf("%s.c: %v\n%s", name, err, out)
	}
	return exe
}

// environment is the test's own environment, with the host device and the libraries under test.
func environment(t *testing.T, more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, "NCCL_") || strings.HasPrefix(s, "GOCCL_") || strings.HasPrefix(s, "LD_")
	})
	return append(append(env, "GOCCL_DEVICE=host", "LD_LIBRARY_PATH="+libraries(t)), more...)
}

func command(t *testing.T, env []string, argv ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env = env
	return c
}

func run(t *testing.T, env []string, argv ...string) string {
	t.Helper()
	out, err := command(t, env, argv...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// processes runs n ranks of a program, whose arguments are args, the rank and a file; dies is the rank that is killed.
func processes(t *testing.T, exe string, n, dies int, args ...string) {
	t.Helper()
	onHosts(t, exe, make([]int, n), dies, args...)
}

// onHosts is processes with rank r on a host of the number hosts[r].
func onHosts(t *testing.T, exe string, hosts []int, dies int, args ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "id")
	var wg sync.WaitGroup
	for r, h := range hosts {
		env := environment(t)
		if h != 0 {
			env = append(env, fmt.Sprint("NCCL_HOSTID=host-", h))
		}
		c := command(t, env, append(append([]string{exe}, args...), strconv.Itoa(r), file)...)
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		wg.Go(func() {
			err := c.Run()
			var exit *exec.ExitError
			if r == dies && errors.As(err, &exit) && exit.ExitCode() == -1 {
				return
			}
			if err != nil {
				t.Errorf("rank %d: %v\n%s", r, err, out.String())
			}
		})
	}
	wg.Wait()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; it is now\n%s", name, got)
	}
}

// onMock runs a program with the mock driver, which is its argument.
func onMock(t *testing.T, name string) {
	t.Helper()
	exe, lib := program(t, name), filepath.Join(t.TempDir(), "libmockcuda.so")
	if err := mockcuda.Build(lib); err != nil {
		t.Skip(err)
	}
	run(t, environment(t, "GOCCL_DEVICE=cuda", "MOCKCUDA_DEVICES=2", mockcuda.Env+"="+lib), exe, lib)
}
