package hosttest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// flags are common to every program. 32-byte parameters passed by value are what -Wno-psabi is about; #pragma unroll is
// CUDA's.
var flags = []string{
	"-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-Wno-unknown-pragmas", "-include", "testdata/emulate.hpp",
}

// touch reads every source, so that go test does not take a cached result for these: it cannot see what the compiler
// reads.
func touch(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"testdata/*", "../../include/*/*", "../../*/*.cu", "../../*/*.cuh"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			if _, err := os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// build compiles one program of testdata, or skips the test when there is no compiler that can.
func build(t *testing.T, name string, extra ...string) string {
	t.Helper()
	touch(t)
	cxx := os.Getenv("CXX")
	if cxx == "" {
		cxx = "g++"
	}
	if _, err := exec.LookPath(cxx); err != nil {
		t.Skipf("no C++ compiler: %v", err)
	}
	out := filepath.Join(t.TempDir(), name)
	args := append(append([]string{}, flags...), extra...)
	args = append(args, "-I"+impatient(t), "-I../../include", "-I../..", "-o", out, filepath.Join("testdata", name+".cpp"))
	if text, err := exec.Command(cxx, args...).CombinedOutput(); err != nil {
		if probe := probe(t, cxx, extra); probe != nil {
			t.Skipf("%s cannot build C++20 programs with %v: %v", cxx, extra, probe)
		}
		t.Fatalf("%s: %v\n%s", name, err, text)
	}
	return out
}

// impatient writes an abort.cuh whose waits look for their end after few polls: a poll lets other threads run here, and
// a thousand of them may take a minute. It returns the folder to include from.
func impatient(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../include/goccl/abort.cuh")
	if err != nil {
		t.Fatal(err)
	}
	const polls = "spinsPerCheck = 1024;"
	if strings.Count(string(text), polls) != 1 {
		t.Fatalf("abort.cuh has no %q, or several: bring the test up to date", polls)
	}
	return written(t, map[string]string{"goccl/abort.cuh": strings.Replace(string(text), polls, "spinsPerCheck = 32;", 1)})
}

// buildSanitized is build with ThreadSanitizer, whose reports need no more than the lines of sources (-g1).
func buildSanitized(t *testing.T, name string, extra ...string) string {
	t.Helper()
	return build(t, name, append(extra, "-O1", "-g1", "-fsanitize=thread", "-pthread")...)
}

// probe tells a compiler that cannot from a program that is wrong.
func probe(t *testing.T, cxx string, extra []string) error {
	t.Helper()
	dir := t.TempDir()
	src := filepath.Join(dir, "probe.cpp")
	text := "#include <atomic>\nint main() { long v = 0; return std::atomic_ref<long>(v).load(); }\n"
	if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-std=c++20", "-o", filepath.Join(dir, "probe"), src}, extra...)
	if out, err := exec.Command(cxx, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// run executes a program and returns its output and whether it succeeded. A program that does not end is a failure of
// the test.
func run(t *testing.T, program string, args ...string) (string, bool) {
	t.Helper()
	return runSanitized(t, "symbolize=1", program, args...)
}

// runSanitized is run with an option of ThreadSanitizer. Without symbolize a race is found in a fifth of the time.
func runSanitized(t *testing.T, option, program string, args ...string) (string, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	// Threads come and go: a third of the time goes to their stacks unless they are reused.
	cmd.Env = append(os.Environ(), "TSAN_OPTIONS=halt_on_error=1 exitcode=66 "+option,
		"GLIBC_TUNABLES=glibc.pthread.stack_cache_size=2000000000")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%v hangs:\n%s", args, out)
	}
	if strings.Contains(string(out), "unexpected memory mapping") {
		t.Skip("this kernel's address space layout is more than this ThreadSanitizer can take (vm.mmap_rnd_bits)")
	}
	return string(out), err == nil
}

// TestProtocols runs each protocol as it is, and then broken in every way that it must not survive.
func TestProtocols(t *testing.T) {
	t.Parallel()
	program := buildSanitized(t, "protocols")
	for _, c := range []struct {
		name   string
		caught []string // mutations that must be noticed
		passes []string // orders that the protocol claims not to need
	}{
		{"semaphore", []string{"bug", "acquire", "release"}, nil},
		{"packet", []string{"bug"}, []string{"acquire", "release"}},
		{"ll128", []string{"bug"}, nil},
		{"fifo", []string{"bug", "acquire", "release"}, nil},
		{"device_syncer", []string{"bug", "acquire", "release"}, nil},
		{"tutorial", []string{"acquire", "release"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, ok := run(t, program, c.name); !ok {
				t.Fatalf("as it is:\n%s", out)
			}
			for _, m := range c.passes {
				if out, ok := run(t, program, c.name, m); !ok {
					t.Errorf("with relaxed %s:\n%s", m, out)
				}
			}
			for _, m := range c.caught {
				if !caught(t, program, always(c.name, m)) {
					t.Errorf("%s: a broken protocol (%s) passes", c.name, m)
				}
			}
		})
	}
}

func TestArithmetic(t *testing.T) {
	t.Parallel()
	program := build(t, "arithmetic", "-O1")
	if out, ok := run(t, program); !ok {
		t.Error(out)
	}
}

// TestLayout holds the structures of the device headers to layout.txt, the table that the Go mirrors are held to as
// well.
func TestLayout(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("../../include/goccl/layout.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(table)) {
		if !strings.HasPrefix(line, "#") {
			want = append(want, strings.TrimSpace(line))
		}
	}
	out, ok := run(t, build(t, "layout", "-O0", "-Wno-invalid-offsetof"))
	if !ok {
		t.Fatal(out)
	}
	got := strings.Split(strings.TrimSpace(out), "\n")
	if len(got) != len(want) {
		t.Errorf("%d lines: layout.txt has %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("the compiler says %q: layout.txt has %q", got[i], want[i])
		}
	}
}
