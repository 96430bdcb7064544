//go:build cgo && linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The profiler plugin exports the interfaces that it says, and nothing else.
func TestProfilerSymbols(t *testing.T) {
	got := symbols(t, filepath.Join(libraries(t), "libgoccl-profiler.so"))
	want := []string{"D ncclProfiler_v4", "D ncclProfiler_v5", "D ncclProfiler_v6"}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// watched is the part of goccl watch --json that the test looks at.
type watched struct {
	Communicators []struct{ Size int }
	Verdicts      []struct {
		Kind      string
		Rank      int
		PID       int
		Operation string
		Number    uint64
	}
}

// goccl watch names the faults in jobs of real processes on libnccl.so.2, by the profiler plugin alone, by goccl's
// own recorder alone, and by both.
func TestWatch(t *testing.T) {
	lib := libraries(t)
	exe, tool := program(t, "watched"), filepath.Join(t.TempDir(), "goccl")
	if out, err := exec.Command("go", "build", "-o", tool, "../cmd/goccl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	plugin := []string{"NCCL_PROFILER_PLUGIN=" + filepath.Join(lib, "libgoccl-profiler.so"), "GOCCL_RECORD=0"}
	for _, c := range []struct {
		what, kind, operation string
		number                uint64
		ranks                 int
		env                   []string
	}{
		{"late", "missing", "all_reduce", 21, 4, plugin}, {"stop", "stopped", "all_reduce", 21, 4, plugin},
		{"order", "deadlock", "", 0, 3, plugin}, {"message", "missing", "recv", 1, 3, plugin},
		{"slow", "slow", "", 0, 3, plugin}, {"end", "", "", 0, 3, plugin},
		{"late", "missing", "all_reduce", 21, 4, nil}, {"message", "missing", "recv", 1, 3, nil},
		{"slow", "slow", "", 0, 3, nil}, {"late", "missing", "all_reduce", 21, 3, plugin[:1]},
	} {
		t.Run(fmt.Sprint(c.what, len(c.env)), func(t *testing.T) {
			t.Parallel()
			id := filepath.Join(t.TempDir(), "id")
			var ranks []*exec.Cmd
			var said []*bufio.Reader
			pids := make([]string, c.ranks)
			env := environment(t, c.env...)
			for r := range c.ranks {
				cmd := command(t, env, exe, c.what, fmt.Sprint(c.ranks), id, fmt.Sprint(r))
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
				ranks, pids[r] = append(ranks, cmd), fmt.Sprint(cmd.Process.Pid)
				said = append(said, bufio.NewReader(out))
			}
			for r, out := range said {
				if line, err := out.ReadString('\n'); line != "ready\n" {
					t.Fatalf("rank %d: %q, %v", r, line, err)
				}
			}
			if c.what == "stop" {
				if err := ranks[2].Process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			watch := command(t, env, tool, "watch", "--json", "--every", "100ms", "--stall", "200ms", "--pid",
				strings.Join(pids, ","))
			out, err := watch.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := watch.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = watch.Process.Signal(syscall.SIGINT); _ = watch.Wait() }()
			lines, clean := json.NewDecoder(out), 0
			for {
				var s watched
				if err := lines.Decode(&s); err != nil {
					t.Fatal(err)
				}
				for _, v := range s.Verdicts {
					if c.kind == "stopped" && v.Number == 0 {
						continue // the rank is stopped already, and no other one has waited for long yet
					}
					if v.Kind == c.kind && (v.PID == ranks[2].Process.Pid || c.kind == "deadlock") {
						if c.kind != "deadlock" && (v.Rank != 2 || v.Operation != c.operation || v.Number != c.number) {
							t.Errorf("%+v", s.Verdicts)
						}
						return
					}
				}
				if c.what == "end" && len(s.Communicators) == 0 && len(s.Verdicts) == 0 {
					if clean++; clean == 10 {
						return
					}
				}
			}
		})
	}
}
