//go:build cgo && linux

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestProcess(t *testing.T) {
	exe := program(t, "process")
	t.Run("fork", func(t *testing.T) { run(t, environment(t), exe, "fork") })
	t.Run("exit", func(t *testing.T) {
		for range 10 {
			run(t, environment(t), exe, "exit")
		}
	})
	t.Run("late", func(t *testing.T) { run(t, environment(t), exe, "late") })
	t.Run("reload", func(t *testing.T) {
		run(t, environment(t), exe, "reload", filepath.Join(libraries(t), "libnccl.so.2"))
	})
}

// A shell and its children load the library and never use it.
func TestPreload(t *testing.T) {
	env := environment(t, "LD_PRELOAD="+filepath.Join(libraries(t), "libnccl.so.2"), "NCCL_DEBUG=INFO")
	for _, argv := range [][]string{{"/bin/true"},
		{"/bin/sh", "-c", "for i in 1 2 3; do /bin/echo $i | /bin/cat; done | wc -l"}} {
		if _, err := os.Stat(argv[0]); err != nil {
			t.Skip(err)
		}
		if out := run(t, env, argv...); strings.TrimSpace(out) != map[string]string{
			"/bin/true": "", "/bin/sh": "3"}[argv[0]] {
			t.Errorf("%v printed %q", argv, out)
		}
	}
}

// The core is found in the directory of the library, also through a link; if it is not there, the error names it.
func TestFindingTheCore(t *testing.T) {
	exe, dir := program(t, "interpose"), libraries(t)
	away := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "libnccl.so.2"), filepath.Join(away, "libnccl.so.2")); err != nil {
		t.Fatal(err)
	}
	linked := environment(t, "LD_LIBRARY_PATH="+away)
	run(t, linked, exe)

	alone := t.TempDir()
	data, err := os.ReadFile(filepath.Join(dir, "libnccl.so.2"))
	if err == nil {
		err = os.WriteFile(filepath.Join(alone, "libnccl.so.2"), data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := command(t, environment(t, "LD_LIBRARY_PATH="+alone), exe).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "GOCCL_LIBRARY") {
		t.Errorf("without libgoccl.so: %v %s", err, out)
	}
	run(t, environment(t, "LD_LIBRARY_PATH="+alone, "GOCCL_LIBRARY="+filepath.Join(dir, "libgoccl.so")), exe)
	out, err = command(t, environment(t, "GOCCL_LIBRARY=libm.so.6"), exe).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another release") {
		t.Errorf("with a library that is not ours: %v %s", err, out)
	}
}

func TestDebugOutput(t *testing.T) {
	exe := program(t, "interpose")
	if out := run(t, environment(t, "NCCL_DEBUG=VERSION"), exe); !strings.Contains(out, "NCCL version 2.28.9 by goccl ") {
		t.Errorf("NCCL_DEBUG=VERSION printed %q", out)
	}
	if out := run(t, environment(t), exe); out != "" {
		t.Errorf("without NCCL_DEBUG it prints %q", out)
	}
	out, _ := command(t, environment(t, "NCCL_DEBUG=WARN", "GOCCL_DEVICE=toaster"), exe).CombinedOutput()
	if !strings.Contains(string(out), `NCCL WARN ncclCommInitAll: invalid argument: GOCCL_DEVICE="toaster"`) {
		t.Errorf("NCCL_DEBUG=WARN printed %q", out)
	}
	info := run(t, environment(t, "NCCL_DEBUG=INFO", "NCCL_ALGO=Ring", "NCCL_IB_PKEY=1", "NCCL_CHECK_POINTERS=1",
		"NCCL_P2P_LEVEL="), exe)
	if n := strings.Count(info, `variables="NCCL_ALGO NCCL_IB_PKEY"`); n != 1 {
		t.Errorf("%d lines warn of the variables that are ignored:\n%s", n, info)
	}
	if !regexp.MustCompile(
		`msg="communicator is set up" pid=\d+ name="" rank=0 size=1 device=host:0 table=none took=[0-9.]+m?µ?s`).MatchString(
		info) {
		t.Errorf("NCCL_DEBUG=INFO says nothing of the communicator:\n%s", info)
	}
	if out := run(t, environment(t, "NCCL_ALGO=Ring"), exe); out != "" {
		t.Errorf("without NCCL_DEBUG it prints %q", out)
	}
	file := filepath.Join(t.TempDir(), "log.%p")
	run(t, environment(t, "NCCL_DEBUG=VERSION", "NCCL_DEBUG_FILE="+file), exe)
	if logs, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "log.[0-9]*")); len(logs) != 1 {
		t.Errorf("NCCL_DEBUG_FILE made %v", logs)
	}
}
