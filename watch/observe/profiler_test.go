package observe

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/record"
)

var built struct {
	sync.Once
	dir string
	err error
}

// player returns the profiler plugin and the program that plays NCCL to it.
func player(t *testing.T) (plugin, program string) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("needs gcc: %v", err)
	}
	built.Do(func() {
		dir, err := exec.Command("mktemp", "-d").Output()
		if built.err = err; err != nil {
			return
		}
		built.dir = strings.TrimSpace(string(dir))
		sources, _ := filepath.Glob("../../capi/profiler/*.c")
		for _, argv := range [][]string{
			append([]string{"-fPIC", "-shared", "-Wl,-z,nodelete", "-o", built.dir + "/plugin.so", "-lpthread"}, sources...),
			{"-o", built.dir + "/nccl", "testdata/nccl.c", "-ldl"},
		} {
			argv = append([]string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"}, argv...)
			if out, err := exec.Command("gcc", argv...).CombinedOutput(); err != nil {
				built.err = fmt.Errorf("%w\n%s", err, out)
				return
			}
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir + "/plugin.so", built.dir + "/nccl"
}

// play starts a rank for each of what, and returns when all are where they shall be.
func play(t *testing.T, version int, what ...string) (*Watcher, []*exec.Cmd) {
	t.Helper()
	plugin, program := player(t)
	var cmds []*exec.Cmd
	source := NewProcesses([]int{}...)
	for r, w := range what {
		c := exec.Command(program, plugin, fmt.Sprint(version), fmt.Sprint(r), fmt.Sprint(len(what)), w)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatalf("rank %d: %q, %v", r, line, err)
		}
		cmds = append(cmds, c)
		source.PIDs = append(source.PIDs, c.Process.Pid)
	}
	w := &Watcher{Sources: []Source{source}, Stall: 20 * time.Millisecond}
	t.Cleanup(func() { _ = w.Close() })
	return w, cmds
}

// until looks until a verdict of a kind is there.
func until(t *testing.T, w *Watcher, kind fault.VerdictKind) (*Snapshot, *fault.Verdict) {
	t.Helper()
	var s *Snapshot
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		s = w.Look()
		for _, v := range s.Verdicts {
			if v.Kind == kind {
				return s, v
			}
		}
	}
	t.Fatalf("no verdict %q in %+v", kind, s.Verdicts)
	return nil, nil
}

// Each fault of one of four processes is named, with the right rank, for each version of the interface.
func TestFaultsOfProcesses(t *testing.T) {
	for _, c := range []struct {
		kind  fault.VerdictKind
		what  []string
		ranks []int
		text  string
	}{
		{fault.VerdictMissing, []string{"held", "held", "idle", "held"}, []int{2}, "all_reduce of 1000 × float (#4)"},
		{fault.VerdictMismatch, []string{"held", "other", "held", "held"}, []int{1},
			"broadcast of 1000 × float with root 0"},
		{fault.VerdictNetwork, []string{"held", "held", "held", "network"}, []int{0}, "rank 0: data of the peer"},
		{fault.VerdictBusy, []string{"held", "enqueued", "held", "held"}, []int{1}, "earlier work on its stream"},
		{fault.VerdictGPU, []string{"held", "held", "held", "held"}, []int{}, "makes no progress"},
	} {
		for version := 4; version <= 6; version++ {
			if version != 5 && c.kind != fault.VerdictMissing {
				continue
			}
			w, _ := play(t, version, c.what...)
			s, v := until(t, w, c.kind)
			if !slices.Equal(v.Blamed(), c.ranks) || !strings.Contains(v.What, c.text) || v.Number != 4 ||
				v.Mend == "" || len(s.Verdicts) != 1 || !v.Hang() {
				t.Errorf("version %d, %v: %+v", version, c.what, s.Verdicts)
			}
			com := s.Communicators[0]
			if len(s.Communicators) != 1 || com.Name != "world" || com.Size != 4 || com.Nodes != 2 || len(com.Ranks) != 4 {
				t.Errorf("%+v", com)
			}
			r := com.Ranks[0]
			if r.Source != fmt.Sprint("nccl profiler v", version) || r.Record.Collectives != 4 || r.Current == nil ||
				r.Current.State != record.Started || r.Current.Algorithm != "RING" ||
				r.Record.Operations[0].State != record.Ended ||
				len(r.Sums) != 1 || r.Sums[0].Ended != 3 || r.Sums[0].Begun != 4 || r.Sums[0].BusyNs != 3*2000 ||
				r.Sums[0].Bytes != 4*4000 || (r.Current.Stream == 0x7000) != (version >= 5) {
				t.Errorf("version %d: %+v %+v %+v", version, r, r.Current, r.Sums)
			}
		}
	}
}

// A process that is stopped or killed is named although it cannot answer any more.
func TestStoppedAndKilled(t *testing.T) {
	w, cmds := play(t, 5, "held", "idle", "held", "held")
	w.Look()
	if err := cmds[1].Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if s, v := until(t, w, fault.VerdictStopped); !slices.Equal(v.Blamed(), []int{1}) ||
		v.Process != cmds[1].Process.Pid || !slices.Equal(v.Waiting, []int{0, 2, 3}) {
		t.Errorf("%+v", s.Verdicts)
	}
	if err := cmds[1].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if s, v := until(t, w, fault.VerdictDead); !slices.Equal(v.Blamed(), []int{1}) || len(s.Verdicts) != 1 ||
		!strings.Contains(v.What, "all_reduce of 1000 × float (#3)") {
		t.Errorf("%+v", s.Verdicts)
	}
}

// Operations in graphs, communicators that ended well and idle ones are no hang.
func TestNoFalseAlarm(t *testing.T) {
	for _, what := range [][]string{{"captured", "captured"}, {"end", "end"}, {"idle", "idle"}} {
		w, cmds := play(t, 5, what...)
		time.Sleep(5 * w.Stall)
		if s := w.Look(); len(s.Verdicts) != 0 {
			t.Errorf("%v: %+v", what, s.Verdicts)
		}
		if what[0] == "end" {
			_ = cmds[0].Process.Kill()
			_ = cmds[0].Wait()
			if s := w.Look(); len(s.Verdicts) != 0 || len(s.Communicators) != 0 {
				t.Errorf("%+v", s)
			}
		}
	}
}

// The ring goes round; events that come after their slot went to another operation change nothing.
func TestRingGoesRound(t *testing.T) {
	w, _ := play(t, 6, "wrap")
	s := w.Look()
	r := s.Communicators[0].Ranks[0]
	if r.Record.Collectives != 5003 || len(r.Record.Operations) != 512 || r.Last.Number != 5003 ||
		r.Record.Operations[0].Number != 5003-511 ||
		r.Sums[0].Ended != 5002 || r.Sums[0].Begun != 5003 || r.Current != nil || len(r.Record.Waits) != 0 {
		t.Errorf("%d calls, %d remembered, last %+v, sums %+v, current %+v", r.Record.Collectives,
			len(r.Record.Operations), r.Last, r.Sums, r.Current)
	}
}
