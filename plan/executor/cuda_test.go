package executor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/test/commtest"
)

// TestGPUPrograms runs all shipped programs with staged buffers: tails, in place and out of place, several times on the
// same data.
func TestGPUPrograms(t *testing.T) {
	n, open := commtest.GPUs(t)
	shipped(t, n, func(name string, p *plan.Plan) {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, n, open)
			xs := j.load(t, p)
			ctx := bounded(t)
			for i, m := range messages(xs[0], n, 4, 4*uint64(n), 100*uint64(n), 4096, 4096*uint64(n)+4*uint64(n), 300_000,
				3<<20) {
				for _, inPlace := range []bool{false, true} {
					c := planrun.Case{Message: m, Type: datatype.Float32, InPlace: inPlace, Seed: uint64(i)}
					if !inPlace {
						c.Times = 5
					}
					if err := j.run(ctx, xs, c); err != nil {
						t.Fatalf("%v: %v", c, err)
					}
				}
			}
		})
	})
}

func TestGPUArithmetic(t *testing.T) {
	n, open := commtest.GPUs(t)
	arithmetic(t, newJob(t, n, open), n, reducing)
}

func TestGPUForeignPlans(t *testing.T) {
	n, open := commtest.GPUs(t)
	foreign(t, open, n)
}

// TestGPUGraph replays captured plans, packets among them, mixed with eager launches.
func TestGPUGraph(t *testing.T) {
	n, open := commtest.GPUs(t)
	for _, name := range []string{"allreduce_twoshot_ll", "allreduce_direct", "broadcast_ll", "allgather_ll"} {
		p, err := programs.Build(name, programs.Options{Ranks: n})
		if err != nil {
			t.Fatal(err)
		}
		j := newJob(t, n, open)
		xs := j.load(t, p)
		for i, m := range messages(xs[0], n, 4, 4096, 256<<10) {
			for _, times := range []int{2, 3, 6} { // odd and even numbers of launches in the graph
				c := planrun.Case{Message: m, Type: datatype.Bfloat16, Times: times, Replays: 50, Seed: uint64(i)}
				if err := j.run(bounded(t), xs, c); err != nil {
					t.Fatalf("%s: %v: %v", name, c, err)
				}
			}
		}
	}
}

// TestGPURegistered uses registered buffers without staging. A plan loaded with Registered rejects other buffers.
func TestGPURegistered(t *testing.T) {
	n, open := commtest.GPUs(t)
	for _, name := range []string{"allreduce_direct", "allgather_direct", "allreduce_switch"} {
		p, err := programs.Build(name, programs.Options{Ranks: n})
		if err != nil {
			t.Fatal(err)
		}
		j := newJob(t, n, open)
		xs := j.load(t, p, executor.Registered())
		c := planrun.Case{Message: 8 << 20, Type: datatype.Float32, Times: 20}
		if err := j.run(bounded(t), xs, c); !errors.Is(err, collective.ErrInvalidArgument) {
			t.Fatalf("%s without registration: %v", name, err)
		}
		if err := j.each(func(r int) error {
			mine := c
			mine.Prepare = func(ctx context.Context, send, recv device.Ptr) error {
				return errors.Join(j.execs[r].Register(ctx, send), j.execs[r].Register(ctx, recv))
			}
			took, err := planrun.Rank(bounded(t), xs[r], r, j.devs[r], mine)
			if r == 0 && err == nil {
				t.Logf("%s, %d bytes: %v", name, c.Message, took)
			}
			return err
		}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// TestGPUAbsentRank: a kernel that waits for an absent rank times out, and the error names the rank and the place.
func TestGPUAbsentRank(t *testing.T) {
	_, open := commtest.GPUs(t)
	for _, name := range []string{"allreduce_direct", "allreduce_twoshot_ll"} {
		const n = 2
		j := &job{boots: bootstrap.NewLocalGroup(n)}
		for r := range n {
			dev, err := open(r)
			if err != nil {
				t.Fatal(err)
			}
			e, err := executor.New(executor.Config{Job: collective.Job{Bootstrap: j.boots[r], Device: dev,
				OpTimeout: 300 * time.Millisecond}})
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
		p, err := programs.Build(name, programs.Options{Ranks: n})
		if err != nil {
			t.Fatal(err)
		}
		xs := j.load(t, p)
		if err := j.each(func(r int) error { return xs[r].Reserve(bounded(t), 4096) }); err != nil {
			t.Fatal(err)
		}
		// The first run, on both ranks, creates the staging buffers.
		if err := j.run(bounded(t), xs, planrun.Case{Message: 4096, Type: datatype.Float32}); err != nil {
			t.Fatal(err)
		}
		_, _ = planrun.Rank(bounded(t), xs[0], 0, j.devs[0], planrun.Case{Message: 4096, Type: datatype.Float32})
		deadline := time.Now().Add(3 * time.Second)
		for j.execs[0].Err() == nil && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		var ae *collective.Error
		if err := j.execs[0].Err(); !errors.As(err, &ae) || !errors.Is(err, collective.ErrTimeout) || ae.Peer != 1 {
			t.Fatalf("%s: %v", name, err)
		} else {
			t.Log(err)
		}
	}
}
