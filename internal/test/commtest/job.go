package commtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/internal/testutil"
)

// Job is a set of rank processes, seen from outside.
type Job struct {
	T       *testing.T
	Task    Task
	procs   []*exec.Cmd
	logs    []*bytes.Buffer // what the processes wrote to standard error, complete after wg.Wait
	mu      sync.Mutex
	reports []Report
	changed chan struct{} // closed and replaced at each report
	wg      sync.WaitGroup
}

// Start starts the task in Size processes. The end of the test kills the remaining ones.
func Start(t *testing.T, tk Task) *Job {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tk.Address = fmt.Sprintf("unix:@goccl-test-%d-%016x", os.Getpid(), rand.Uint64())
	if tk.Seed == 0 {
		tk.Seed = rand.Uint64()
	}
	j := &Job{T: t, Task: tk, changed: make(chan struct{})}
	t.Cleanup(func() {
		for _, p := range j.procs {
			_ = p.Process.Kill()
		}
		j.wg.Wait()
		if t.Failed() {
			for _, r := range j.reports {
				t.Logf("%+v", r)
			}
			for r, l := range j.logs {
				if l.Len() > 0 {
					t.Logf("rank %d ended with %v; its log:\n%s", r, j.procs[r].ProcessState, l)
				}
			}
			t.Logf("task %+v", tk)
		}
	})
	for r := range tk.Size {
		tk.Rank = r
		b, err := json.Marshal(tk)
		if err != nil {
			t.Fatal(err)
		}
		by := append(slices.Clone(tk.By[r]), self)
		p := exec.Command(by[0], by[1:]...)
		p.Env = append(setting.Environ(), taskVariable+"="+string(b), "GOCCL_TIMEOUT=20s")
		p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		log := &bytes.Buffer{}
		p.Stderr = log
		out, err := p.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		j.procs, j.logs = append(j.procs, p), append(j.logs, log)
		j.wg.Go(func() {
			for in := bufio.NewScanner(out); in.Scan(); {
				var rep Report
				if err := json.Unmarshal(in.Bytes(), &rep); err != nil {
					rep = Report{Rank: r, Event: "noise", Text: in.Text()}
				}
				j.mu.Lock()
				j.reports = append(j.reports, rep)
				close(j.changed)
				j.changed = make(chan struct{})
				j.mu.Unlock()
			}
			_ = p.Wait()
		})
	}
	return j
}

// Await waits until each of ranks has reported event and returns the reports, by rank.
func (j *Job) Await(event string, ranks []int, within time.Duration) map[int]Report {
	j.T.Helper()
	timeout := time.After(within)
	for {
		j.mu.Lock()
		changed, got := j.changed, map[int]Report{}
		for _, r := range j.reports {
			if _, seen := got[r.Rank]; r.Event == event && !seen {
				got[r.Rank] = r
			}
			if r.Event == "failed" && event != "failed" {
				j.mu.Unlock()
				j.T.Fatalf("rank %d failed: %s", r.Rank, r.Text)
			}
		}
		j.mu.Unlock()
		missing := []int{}
		for _, r := range ranks {
			if _, ok := got[r]; !ok {
				missing = append(missing, r)
			}
		}
		if len(missing) == 0 {
			return got
		}
		select {
		case <-changed:
		case <-timeout:
			j.T.Fatalf("no %q from ranks %v within %v", event, missing, within)
		}
	}
}

// Said returns the reports so far.
func (j *Job) Said() []Report {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.reports)
}

// Signal sends s to one rank and returns the time.
func (j *Job) Signal(rank int, s syscall.Signal) time.Time {
	if err := j.procs[rank].Process.Signal(s); err != nil {
		j.T.Fatal(err)
	}
	return time.Now()
}

// Clean checks that the processes have ended and have left nothing on the machine.
func (j *Job) Clean() {
	j.T.Helper()
	j.wg.Wait()
	for r, p := range j.procs {
		if r != j.Task.Victim && !p.ProcessState.Success() {
			j.T.Errorf("rank %d ended with %v", r, p.ProcessState)
		}
	}
	testutil.NothingLeft(j.T)
}

// Everyone returns the ranks 0 to n-1.
func Everyone(n int) []int { return Others(n, -1) }

// Others returns the ranks 0 to n-1 except without.
func Others(n, without int) []int {
	var out []int
	for r := range n {
		if r != without {
			out = append(out, r)
		}
	}
	return out
}

// OnDevices runs f for the host device, and for CUDA where there is one.
func OnDevices(t *testing.T, f func(t *testing.T, tk Task)) {
	t.Run("host", func(t *testing.T) { f(t, Task{Size: 8, Victim: -1}) })
	t.Run("cuda", func(t *testing.T) {
		n, _ := GPUs(t)
		f(t, Task{Size: n, Victim: -1, CUDA: true})
	})
}
