package goccl_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/conformance"
	"github.com/goccl/goccl/internal/testutil"
)

// TestMain lets the test binary be one rank of a job: the variable taskVariable contains its task.
func TestMain(m *testing.M) {
	if s := os.Getenv(taskVariable); s != "" {
		os.Exit(rankMain(s))
	}
	os.Exit(m.Run())
}

const taskVariable = "GOCCL_TEST_TASK"

// task is the input of a rank's process.
type task struct {
	Do         string
	Rank, Size int
	Victim     int // the rank to be killed or stopped
	At         int // the step of the failure, for failures during set-up
	CUDA       bool
	Address    string
	Seed       uint64
	OpTimeout  time.Duration
	Leave      string // how rank 0 leaves, of "leave"
	Exit       bool   // exit at the first error, as programs do
	Rounds     int
	// By, for a rank, is the program that starts it, with its arguments; without an entry the rank is started directly.
	By map[int][]string `json:"-"`
}

// report is one line of a rank's output.
type report struct {
	Rank  int
	Event string // running, error, shrunk, left, done, failed
	At    int64  // Unix time in ns
	Op    string
	Peer  int
	Seq   uint64
	Kind  string
	Text  string
}

// rank is a process of a job, seen from inside.
type rank struct {
	task
	boot *bootstrap.TCP
	dev  device.Device
}

func (k *rank) say(event string, err error) {
	r := report{Rank: k.Rank, Event: event, At: time.Now().UnixNano(), Peer: -1}
	if err != nil {
		r.Text = err.Error()
		var ge *goccl.Error
		if errors.As(err, &ge) {
			r.Op, r.Peer, r.Seq = ge.Op, ge.Peer, ge.Seq
		}
		for _, kind := range []error{goccl.ErrPeerDead, goccl.ErrTimeout, goccl.ErrMismatch, goccl.ErrAborted} {
			if errors.Is(err, kind) {
				r.Kind = kind.Error()
				break
			}
		}
	}
	b, _ := json.Marshal(r)
	fmt.Println(string(b))
}

func rankMain(s string) int {
	k := &rank{}
	if err := json.Unmarshal([]byte(s), &k.task); err != nil {
		fmt.Println(err)
		return 1
	}
	time.AfterFunc(2*time.Minute, func() { panic("the rank hangs") })
	do := map[string]func() error{
		"matrix": k.matrix, "traffic": k.traffic, "wait": k.wait, "setup": k.setup, "replay": k.replay, "descriptors": k.descriptors, "leave": k.leave,
		"reuse": k.reuse, "paused": k.paused, "model": k.model, "children": k.children,
	}[k.Do]
	before := k.settle(testutil.Resources{})
	err := k.run(do)
	if err == nil && !k.CUDA {
		if after := k.settle(before); after.More(before) {
			err = fmt.Errorf("left behind: %v, before %v\n%s", after, before, after.Detail)
		}
	}
	if err != nil {
		k.say("failed", err)
		return 1
	}
	k.say("done", nil)
	return 0
}

func (k *rank) run(do func() error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if k.CUDA {
		n, err := cuda.Count()
		if err != nil {
			return err
		}
		k.dev, err = cuda.Open(k.Rank % n)
		if err != nil {
			return err
		}
	} else if k.dev, err = host.Open(k.Rank); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.dev.Close()) }()
	k.boot = bootstrap.NewTCP(k.Rank, k.Size)
	if err := k.boot.InitAddress(ctx, k.Address); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.boot.Close()) }()
	return do()
}

func (k *rank) comm(b bootstrap.Bootstrap) (*goccl.Comm, error) {
	return goccl.NewComm(context.Background(), goccl.Config{Bootstrap: b, Device: k.dev, OpTimeout: k.OpTimeout})
}

// matrix runs the trimmed conformance matrix; all ranks' results of an all-reduce must be bitwise identical.
func (k *rank) matrix() error {
	c, err := k.comm(k.boot)
	if err != nil {
		return err
	}
	sizes := []int64{0, 1, 1023, 70001}
	if k.CUDA {
		sizes = append(sizes, 1<<20+3)
	}
	for _, cs := range conformance.Trimmed(k.Size, k.Seed, sizes) {
		out, err := conformance.RunRank(c, cs, cs.Inputs(k.Size))
		if err != nil {
			return err
		}
		if cs.Collective != algorithm.AllReduce {
			continue
		}
		sum := sha256.Sum256(out)
		all, err := k.boot.AllGather(context.Background(), sum[:])
		if err != nil {
			return err
		}
		for r, s := range all {
			if string(s) != string(sum[:]) {
				return fmt.Errorf("%v: ranks %d and %d have different bits", cs, k.Rank, r)
			}
		}
	}
	if err := c.Finalize(context.Background()); err != nil {
		return err
	}
	return c.Close()
}

// job is a set of rank processes, seen from outside.
type job struct {
	t       *testing.T
	task    task
	procs   []*exec.Cmd
	logs    []*bytes.Buffer // what the processes wrote to standard error, complete after wg.Wait
	mu      sync.Mutex
	reports []report
	changed chan struct{} // closed and replaced at each report
	wg      sync.WaitGroup
}

// startJob starts the task in Size processes. The end of the test kills the remaining ones.
func startJob(t *testing.T, tk task) *job {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tk.Address = fmt.Sprintf("unix:@goccl-test-%d-%016x", os.Getpid(), rand.Uint64())
	if tk.Seed == 0 {
		tk.Seed = rand.Uint64()
	}
	j := &job{t: t, task: tk, changed: make(chan struct{})}
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
		p.Env = append(os.Environ(), taskVariable+"="+string(b), "GOCCL_TIMEOUT=20s")
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
				var rep report
				if err := json.Unmarshal(in.Bytes(), &rep); err != nil {
					rep = report{Rank: r, Event: "noise", Text: in.Text()}
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

// await waits until each of ranks has reported event and returns the reports, by rank.
func (j *job) await(event string, ranks []int, within time.Duration) map[int]report {
	j.t.Helper()
	timeout := time.After(within)
	for {
		j.mu.Lock()
		changed, got := j.changed, map[int]report{}
		for _, r := range j.reports {
			if _, seen := got[r.Rank]; r.Event == event && !seen {
				got[r.Rank] = r
			}
			if r.Event == "failed" && event != "failed" {
				j.mu.Unlock()
				j.t.Fatalf("rank %d failed: %s", r.Rank, r.Text)
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
			j.t.Fatalf("no %q from ranks %v within %v", event, missing, within)
		}
	}
}

// signal sends s to one rank and returns the time.
func (j *job) signal(rank int, s syscall.Signal) time.Time {
	if err := j.procs[rank].Process.Signal(s); err != nil {
		j.t.Fatal(err)
	}
	return time.Now()
}

func everyone(n int) []int { return others(n, -1) }

func others(n, without int) []int {
	var out []int
	for r := range n {
		if r != without {
			out = append(out, r)
		}
	}
	return out
}

// onDevices runs f for the host device, and for CUDA where there is one.
func onDevices(t *testing.T, f func(t *testing.T, tk task)) {
	t.Run("host", func(t *testing.T) { f(t, task{Size: 8, Victim: -1}) })
	t.Run("cuda", func(t *testing.T) {
		n, _ := cudaRanks(t)
		f(t, task{Size: n, Victim: -1, CUDA: true})
	})
}

func TestProcesses(t *testing.T) {
	onDevices(t, func(t *testing.T, tk task) {
		tk.Do = "matrix"
		sizes := []int{2, tk.Size}
		if !testing.Short() && !tk.CUDA {
			sizes = []int{2, 3, 8}
		}
		for _, n := range sizes {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				tk := tk
				tk.Size = n
				startJob(t, tk).await("done", everyone(n), time.Minute)
			})
		}
	})
}
