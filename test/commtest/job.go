package commtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/ranks"
	"github.com/goccl/goccl/test/testutil"
)

// Job is a set of rank processes of a test.
type Job struct {
	*ranks.Job
	T     *testing.T
	Task  Task
	watch testutil.Watch
}

// Start starts the task in Size processes. The end of the test kills the remaining ones.
func Start(t *testing.T, tk Task) *Job {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if tk.Address == "" {
		tk.Address = fmt.Sprintf("unix:@goccl-test-%d-%016x", os.Getpid(), rand.Uint64())
	}
	if tk.Seed == 0 {
		tk.Seed = rand.Uint64()
	}
	j := &Job{Job: ranks.New(), T: t, Task: tk, watch: testutil.NewWatch(t)}
	t.Cleanup(func() {
		j.Close()
		if t.Failed() {
			for _, r := range j.Said() {
				t.Logf("%+v", r)
			}
			for r := range j.Size() {
				if l := j.Log(r); l != "" {
					t.Logf("rank %d ended with %v; its log:\n%s", r, j.State(r), l)
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
		p.Env = append(setting.Environ(), taskVariable+"="+string(b), "GOCCL_TIMEOUT=60s")
		if err := j.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// Await waits until each of ranks has reported event and returns the reports, by rank.
func (j *Job) Await(event string, ranks []int, within time.Duration) map[int]Report {
	j.T.Helper()
	got, err := j.Job.Await(event, ranks, within)
	if err != nil {
		j.T.Fatal(err)
	}
	return got
}

// Signal sends s to one rank and returns the time.
func (j *Job) Signal(rank int, s syscall.Signal) time.Time {
	j.T.Helper()
	at, err := j.Job.Signal(rank, s)
	if err != nil {
		j.T.Fatal(err)
	}
	return at
}

// Clean checks that the processes have ended and have left nothing on the machine.
func (j *Job) Clean() {
	j.T.Helper()
	j.Wait(time.Hour)
	for r := range j.Size() {
		if p := j.State(r); r != j.Task.Victim && !p.Success() {
			j.T.Errorf("rank %d ended with %v", r, p)
		}
	}
	j.watch.NothingLeft(j.T)
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
