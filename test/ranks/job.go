package ranks

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/goccl/goccl/internal/child"
)

// Job is a set of rank processes.
type Job struct {
	procs   []*exec.Cmd
	stdin   []io.WriteCloser
	logs    []*bytes.Buffer // standard error, complete after Wait
	wg      sync.WaitGroup
	mu      sync.Mutex
	reports []Report
	ended   map[int]bool  // ranks that report no more
	changed chan struct{} // closed and replaced at each report and each end
}

// New makes a job without ranks.
func New() *Job { return &Job{changed: make(chan struct{}), ended: map[int]bool{}} }

// Add starts cmd as the next rank. The process dies with this one.
func (j *Job) Add(cmd *exec.Cmd) error {
	r := len(j.procs)
	log := &bytes.Buffer{}
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := child.Start(cmd); err != nil {
		return err
	}
	j.procs, j.logs, j.stdin = append(j.procs, cmd), append(j.logs, log), append(j.stdin, in)
	j.wg.Go(func() {
		for in := bufio.NewScanner(out); in.Scan(); {
			var rep Report
			if err := json.Unmarshal(in.Bytes(), &rep); err != nil {
				rep = Report{Rank: r, Event: "noise", Text: in.Text()}
			}
			j.note(func() { j.reports = append(j.reports, rep) })
		}
		_ = cmd.Wait()
		j.note(func() { j.ended[r] = true })
	})
	return nil
}

func (j *Job) note(change func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change()
	close(j.changed)
	j.changed = make(chan struct{})
}

// Await waits until each of ranks has reported event and returns their first such reports. It returns an error when a
// rank reports "failed", when one ends without the report, or at the end of the time.
func (j *Job) Await(event string, ranks []int, within time.Duration) (map[int]Report, error) {
	timeout := time.After(within)
	for {
		j.mu.Lock()
		changed, got := j.changed, map[int]Report{}
		var failed *Report
		for i, r := range j.reports {
			if _, seen := got[r.Rank]; r.Event == event && !seen {
				got[r.Rank] = r
			}
			if r.Event == "failed" && event != "failed" && failed == nil {
				failed = &j.reports[i]
			}
		}
		missing, ended := []int{}, []int{}
		for _, r := range ranks {
			if _, ok := got[r]; !ok {
				if missing = append(missing, r); j.ended[r] {
					ended = append(ended, r)
				}
			}
		}
		j.mu.Unlock()
		if failed != nil {
			return got, fmt.Errorf("rank %d failed: %s", failed.Rank, failed.Text)
		}
		if len(missing) == 0 {
			return got, nil
		}
		if len(ended) > 0 {
			return got, fmt.Errorf("ranks %v ended without %q", ended, event)
		}
		select {
		case <-changed:
		case <-timeout:
			return got, fmt.Errorf("no %q from ranks %v within %v", event, missing, within)
		}
	}
}

// Said returns the reports so far.
func (j *Job) Said() []Report {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.reports)
}

// Process returns a rank's process.
func (j *Job) Process(rank int) *os.Process { return j.procs[rank].Process }

// Tell writes to a rank's standard input.
func (j *Job) Tell(rank int, text string) error {
	_, err := io.WriteString(j.stdin[rank], text)
	return err
}

// Signal sends s to one rank and returns the time.
func (j *Job) Signal(rank int, s syscall.Signal) (time.Time, error) {
	return time.Now(), j.procs[rank].Process.Signal(s)
}

// Wait waits for the end of all processes, and reports whether it came in time.
func (j *Job) Wait(within time.Duration) bool {
	ended := make(chan struct{})
	go func() {
		j.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-time.After(within):
		return false
	}
}

// Close kills what still runs, and waits for its end.
func (j *Job) Close() {
	for _, p := range j.procs {
		_ = p.Process.Kill()
	}
	j.wg.Wait()
	for _, in := range j.stdin {
		_ = in.Close()
	}
}

// State tells how a rank ended; nil while it runs. Call it after Wait or Close.
func (j *Job) State(rank int) *os.ProcessState { return j.procs[rank].ProcessState }

// Size is the number of ranks that were started.
func (j *Job) Size() int { return len(j.procs) }

// Log is what a rank wrote to standard error. Call it after Wait or Close.
func (j *Job) Log(rank int) string { return j.logs[rank].String() }
