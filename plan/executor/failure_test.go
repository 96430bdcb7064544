package executor_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/verify"
)

// failing is a job of two ranks with a short deadline, and a buffer for each.
func failing(t *testing.T, program string, timeout time.Duration) (j *job, xs []*executor.ExecutionPlan,
	execute func(r int, message uint64) error) {
	t.Helper()
	const n = 2
	j = &job{boots: bootstrap.NewLocalGroup(n)}
	for r := range n {
		dev, err := host.Open(r)
		if err != nil {
			t.Fatal(err)
		}
		e, err := executor.New(executor.Config{Job: collective.Job{Bootstrap: j.boots[r], Device: dev, OpTimeout: timeout}})
		if err != nil {
			t.Fatal(err)
		}
		j.devs, j.execs = append(j.devs, dev), append(j.execs, e)
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			_ = dev.Close()
		})
	}
	p, err := programs.Build(program, programs.Options{Ranks: n})
	if err != nil {
		t.Fatal(err)
	}
	xs = j.load(t, p)
	return j, xs, func(r int, message uint64) error {
		a, err := j.devs[r].Alloc(int64(message) * 2)
		if err != nil {
			return err
		}
		s, err := j.devs[r].NewStream()
		if err != nil {
			return err
		}
		if err := xs[r].Execute(bounded(t), executor.Args{Send: a.Ptr(), Recv: a.Ptr().Add(int64(message)), Message: message,
			Type: datatype.Float32, Stream: s, Seq: 7}); err != nil {
			return err
		}
		return s.Synchronize(bounded(t))
	}
}

// TestAbsentRank: the error of a rank that waits for an absent rank names that rank, the operation, and the place in
// the plan. The executor stays failed.
func TestAbsentRank(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"allreduce_direct", "allreduce_twoshot_ll", "allreduce_ring"} {
		j, _, execute := failing(t, program, time.Second)
		err := execute(0, 4096)
		var ae *collective.Error
		if !errors.As(err, &ae) || !errors.Is(err, collective.ErrTimeout) || ae.Peer != 1 || ae.Rank != 0 || ae.Seq != 7 {
			t.Fatalf("%s: %v", program, err)
		}
		if !strings.Contains(err.Error(), "thread block") || !strings.Contains(err.Error(), "op ") {
			t.Errorf("%s: the place in the plan is missing: %v", program, err)
		}
		if err := execute(0, 4096); err == nil || j.execs[0].Err() == nil {
			t.Errorf("%s: the plan goes on after a failure", program)
		}
	}
}

func TestDifferentMessages(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"allreduce_direct", "allreduce_twoshot_ll", "allreduce_ring"} {
		j, _, execute := failing(t, program, 5*time.Second)
		err := j.each(func(r int) error { return execute(r, uint64(4096*(r+1))) })
		if !errors.Is(err, collective.ErrMismatch) {
			t.Errorf("%s: %v", program, err)
		}
	}
}

func TestAbortEndsARunningLaunch(t *testing.T) {
	j, _, execute := failing(t, "allreduce_direct", 0)
	done := make(chan error, 1)
	go func() { done <- execute(0, 4096) }()
	time.Sleep(20 * time.Millisecond)
	j.execs[0].Abort(&collective.Error{Op: "communicator", Rank: 0, Peer: 1, Err: collective.ErrPeerDead})
	select {
	case err := <-done:
		if !errors.Is(err, collective.ErrPeerDead) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("still running")
	}
}

// TestPanicEndsEverything: a launch that accesses unmapped memory, on one worker or on several, fails the executor at
// once, and leaves nothing that Close would wait for.
func TestPanicEndsEverything(t *testing.T) {
	const nowhere device.Ptr = 1 << 12 // the second page is never mapped
	for _, program := range []string{"allreduce_direct", "allreduce_twoshot_ll"} {
		for _, message := range []uint64{4096, 1 << 20} {
			j, xs, _ := failing(t, program, time.Minute)
			var panics atomic.Int32
			if err := j.each(func(r int) error {
				s, err := j.devs[r].NewStream()
				if err != nil {
					return err
				}
				// by the other rank's end
				if err := xs[r].Execute(bounded(t), executor.Args{Send: nowhere, Recv: nowhere, Message: message,
					Type: datatype.Float32, Stream: s}); err != nil && !errors.Is(err, collective.ErrAborted) {
					return err
				}
				err = s.Synchronize(bounded(t))
				var panicked *host.PanicError
				if errors.As(err, &panicked) {
					panics.Add(1)
				}
				if err := j.execs[r].Err(); !errors.Is(err, collective.ErrAborted) {
					t.Errorf("%s: the executor says %v", program, err)
				}
				j.execs[1-r].Abort(collective.ErrAborted) // as a communicator does
				return j.execs[r].Close()
			}); err != nil {
				t.Errorf("%s: %v", program, err)
			}
			if panics.Load() == 0 {
				t.Errorf("%s: no panic", program)
			}
		}
	}
}

// TestLoadRefuses: Load rejects wrong plans with the verifier's counterexample, plans for another number of ranks, and
// ranks that disagree.
func TestLoadRefuses(t *testing.T) {
	const n = 2
	j := newJob(t, n, openHost)
	good, err := programs.Build("allreduce_direct", programs.Options{Ranks: n})
	if err != nil {
		t.Fatal(err)
	}
	bad, err := plan.Decode(good.Encode())
	if err != nil {
		t.Fatal(err)
	}
	ops := &bad.GPUs[1].ThreadBlocks[0].Ops
	*ops = (*ops)[1:] // the first signal
	ctx := bounded(t)
	err = j.each(func(r int) error { _, err := j.execs[r].Load(ctx, bad); return err })
	var v *verify.Violation
	if !errors.As(err, &v) {
		t.Errorf("a wrong plan: %v", err)
	}
	three, err := programs.Build("allreduce_direct", programs.Options{Ranks: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.each(func(r int) error { _, err := j.execs[r].Load(ctx, three); return err }); !errors.Is(err,
		collective.ErrInvalidArgument) {
		t.Errorf("another number of ranks: %v", err)
	}
	other, err := programs.Build("allreduce_ring", programs.Options{Ranks: n})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.each(func(r int) error {
		_, err := j.execs[r].Load(ctx, []*plan.Plan{good, other}[r])
		return err
	}); !errors.Is(err, collective.ErrMismatch) {
		t.Errorf("different plans: %v", err)
	}
	// One rank rejects its plan: the other gets an error and does not wait.
	err = j.each(func(r int) error { _, err := j.execs[r].Load(ctx, []*plan.Plan{good, three}[r]); return err })
	if !errors.Is(err, collective.ErrInvalidArgument) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one rank refuses: %v", err)
	}
}

// TestTrustedPlanIsClamped: without the verifier, a plan that reads beyond its buffers ends with an error, not with a
// segmentation fault.
func TestTrustedPlanIsClamped(t *testing.T) {
	const n = 2
	j := newJob(t, n, openHost)
	p, err := programs.Build("allgather_direct", programs.Options{Ranks: n})
	if err != nil {
		t.Fatal(err)
	}
	q, err := plan.Decode(p.Encode())
	if err != nil {
		t.Fatal(err)
	}
	q.Collective, q.Postcondition = "mine", nil
	xs := j.load(t, q, executor.Trusted())
	a, err := j.devs[0].Alloc(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	err = j.each(func(r int) error {
		s, err := j.devs[r].NewStream()
		if err != nil {
			return err
		}
		// No output at all.
		if err := xs[r].Execute(bounded(t), executor.Args{Send: a.Ptr(), Message: 4096, Type: datatype.Int8,
			Stream: s}); err != nil {
			return err
		}
		return s.Synchronize(bounded(t))
	})
	if !errors.Is(err, collective.ErrInvalidArgument) {
		t.Error(err)
	}
}
