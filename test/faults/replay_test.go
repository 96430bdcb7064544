package faults_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
)

// replay replays a graph of all-reduces until a rank dies.
func replay(k *commtest.Process) error {
	const ops, ahead = 200, 5
	c, u, err := k.Sums(k.Boot, 1)
	if err != nil {
		return err
	}
	s, ok := u.Stream.(*cuda.Stream)
	if !ok {
		return fmt.Errorf("%v has no graphs", c.Device().ID())
	}
	x, err := commtest.Capture(s, cuda.CaptureThreadLocal, func() error {
		for range ops {
			if err := c.AllReduce(u.Mem.Ptr(), u.Mem.Ptr().Add(4*commtest.SumCount), commtest.SumCount, datatype.Int32,
				datatype.Sum, s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := 0; err == nil; i++ {
		if i == 5 {
			k.Say("running", nil)
		}
		for range ahead {
			if err = x.Launch(s); err != nil {
				break
			}
		}
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			err = c.Synchronize(ctx, s)
			cancel()
		}
	}
	// Queued work has ended, the graph can be destroyed, and an abort (here after a failure) waits for nothing.
	k.Say("error", err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Synchronize(ctx); err != nil {
		return fmt.Errorf("the stream after the death: %w", err)
	}
	if err := x.Close(); err != nil {
		return err
	}
	c.Abort(nil)
	return survive(k, c, u, err)
}

// A rank is killed in the middle of replays: the others' kernels end, their errors name it, their GPUs' contexts still
// work, and they continue without it.
func TestGPUKillInReplay(t *testing.T) {
	n, _ := commtest.GPUs(t)
	tk := commtest.Task{Do: "replay", Size: n, Victim: n / 2, CUDA: true}
	inTime(t, tk, detection, func(j *commtest.Job) time.Duration {
		j.Await("running", commtest.Everyone(n), 30*time.Second)
		killed := j.Signal(tk.Victim, syscall.SIGKILL)
		worst := checkErrors(j, goccl.ErrPeerDead, killed)
		j.Await("shrunk", commtest.Others(n, tk.Victim), 20*time.Second)
		j.Await("done", commtest.Others(n, tk.Victim), 20*time.Second)
		return worst
	})
}
