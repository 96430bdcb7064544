//go:build cgo && linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccl/goccl/test/mockcuda"
)

func TestConfigured(t *testing.T)  { run(t, environment(t), program(t, "configured")) }
func TestCommGrow(t *testing.T)    { run(t, environment(t), program(t, "grow")) }
func TestOneSided(t *testing.T)    { run(t, environment(t), program(t, "rma")) }
func TestCommSuspend(t *testing.T) { run(t, environment(t), program(t, "suspend")) }

// A snapshot is taken of suspended ranks, over the mock driver.
func TestSnapshot(t *testing.T) {
	lib := filepath.Join(t.TempDir(), "libmockcuda.so")
	if err := mockcuda.Build(lib); err != nil {
		t.Skip(err)
	}
	run(t, environment(t, "GOCCL_DEVICE=cuda", "MOCKCUDA_DEVICES=2", "MOCKCUDA_CHECKPOINT="+t.TempDir(),
		mockcuda.Env+"="+lib), program(t, "snapshot"))
}

// plugin compiles a plugin of a version.
func plugin(t *testing.T, kind string, version int) string {
	t.Helper()
	libraries(t) // skips without a compiler
	lib := filepath.Join(t.TempDir(), fmt.Sprintf("%s%d.so", kind, version))
	out, err := exec.Command("gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
		fmt.Sprintf("-DVERSION=%d", version), "-o", lib, "testdata/plugin_"+kind+".c").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return lib
}

// Profilers of every version see communicators, groups, collectives and messages begin and end, nested; tuners of every
// version are asked for every collective that has no configuration.
func TestPlugins(t *testing.T) {
	exe := program(t, "plugins")
	for v := 1; v <= 6; v++ {
		p, u := plugin(t, "profiler", v), plugin(t, "tuner", max(2, v))
		run(t, environment(t, "NCCL_PROFILER_PLUGIN="+p, "NCCL_TUNER_PLUGIN="+u), exe, p, u)
	}
}

// The functions of NCCL that packages of PyPI look up: none may be missing, or it would come from another NCCL in the
// process. testdata/clients holds what nm, or strings, finds in their libraries.
func TestClients(t *testing.T) {
	have := symbols(t, filepath.Join(libraries(t), "libnccl.so.2"))
	lists, err := filepath.Glob("testdata/clients/*.txt")
	if err != nil || len(lists) < 4 {
		t.Fatal(lists, err)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		names := strings.Fields(string(text))
		if len(names) < 20 {
			t.Errorf("%s has %d names", list, len(names))
		}
		for _, name := range names {
			if !slices.Contains(have, "W "+name) && !slices.Contains(have, "T "+name) {
				t.Errorf("%s: %s is missing", list, name)
			}
		}
	}
}
