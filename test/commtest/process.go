package commtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/leak"
	"github.com/goccl/goccl/test/ranks"
)

const taskVariable = "GOCCL_TEST_TASK"

// Task is the input of a rank's process.
type Task struct {
	Do         string
	Rank, Size int
	Victim     int   // the rank to be killed or stopped
	Victims    []int // several of them
	At         int   // the step of the failure, for failures during set-up
	CUDA       bool
	Address    string
	Seed       uint64
	OpTimeout  time.Duration
	Leave      string // how rank 0 leaves, of "leave"
	Exit       bool   // exit at the first error, as programs do
	Rounds     int
	ID         string // of a job that this process joins besides, with World ranks
	World      int
	// By, for a rank, is the program that starts it, with its arguments; without an entry the rank is started directly.
	By map[int][]string `json:"-"`
}

// Report is one line of a rank's output.
type Report = ranks.Report

// Process is a rank of a job, seen from inside.
type Process struct {
	Task
	Boot   bootstrap.Bootstrap
	Device device.Device
}

// Say reports an event, and err if it is not nil, to the test.
func (k *Process) Say(event string, err error) {
	ranks.NewReport(k.Rank, event, err).Print()
}

// Main is the TestMain of a package that starts jobs: a process that Start started runs its task as one rank.
func Main(m *testing.M, tasks map[string]func(*Process) error) {
	if s := setting.Get(taskVariable); s != "" {
		os.Exit(runTask(s, tasks))
	}
	os.Exit(m.Run())
}

func runTask(s string, tasks map[string]func(*Process) error) int {
	k := &Process{}
	if err := json.Unmarshal([]byte(s), &k.Task); err != nil {
		fmt.Println(err)
		return 1
	}
	do := tasks[k.Do]
	if do == nil {
		k.Say("failed", fmt.Errorf("this test binary has no task %q", k.Do))
		return 1
	}
	time.AfterFunc(2*time.Minute, func() { panic("the rank hangs") })
	before := ranks.Base()
	err := k.run(do)
	if err == nil && !k.CUDA {
		if after := leak.Settled(before); after.More(before) {
			err = fmt.Errorf("left behind: %v, before %v\n%s", after, before, after.Detail)
		}
	}
	if err != nil {
		k.Say("failed", err)
		return 1
	}
	k.Say("done", nil)
	return 0
}

func (k *Process) run(do func(*Process) error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if k.CUDA {
		n, err := cuda.Count()
		if err != nil {
			return err
		}
		k.Device, err = cuda.Open(k.Rank % n)
		if err != nil {
			return err
		}
	} else if k.Device, err = host.Open(k.Rank); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Device.Close()) }()
	k.Boot, err = bootstrap.JoinAddress(ctx, k.Address, k.Rank, k.Size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Boot.Close()) }()
	return do(k)
}

// Comm makes a communicator of the ranks of b.
func (k *Process) Comm(b bootstrap.Bootstrap) (*goccl.Comm, error) {
	return goccl.NewComm(context.Background(), goccl.Config{Bootstrap: b, Device: k.Device, OpTimeout: k.OpTimeout})
}

// Sums makes a communicator and buffers, and runs n all-reduces.
func (k *Process) Sums(b bootstrap.Bootstrap, n int) (*goccl.Comm, *Sums, error) {
	c, err := k.Comm(b)
	if err != nil {
		return nil, nil, err
	}
	u, err := NewSums(c)
	if err == nil && n > 0 {
		err = u.Once(n)
	}
	return c, u, err
}
