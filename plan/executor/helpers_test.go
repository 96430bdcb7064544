package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/plan/programs"
)

func openHost(r int) (device.Device, error) { return host.Open(r) }

// job holds all ranks in this process.
type job struct {
	boots []bootstrap.Bootstrap
	devs  []device.Device
	execs []*executor.Executor
}

func newJob(t testing.TB, n int, open func(int) (device.Device, error)) *job {
	t.Helper()
	return newPatientJob(t, n, open, 5*time.Second)
}

// newPatientJob is newJob with another bound on each wait.
func newPatientJob(t testing.TB, n int, open func(int) (device.Device, error), limit time.Duration) *job {
	t.Helper()
	return fill(t, &job{boots: bootstrap.NewLocalGroup(n)}, open, func(_ int, c *executor.Config) { c.OpTimeout = limit })
}

// fill makes the executors of a job.
func fill(t testing.TB, j *job, open func(int) (device.Device, error), set func(r int, c *executor.Config)) *job {
	t.Helper()
	t.Cleanup(func() {
		if err := j.each(func(r int) error { return j.execs[r].Close() }); err != nil {
			t.Error(err)
		}
		for _, d := range j.devs {
			_ = d.Close()
		}
		for _, b := range j.boots {
			_ = b.Close()
		}
	})
	for r := range j.boots {
		dev, err := open(r)
		if err != nil {
			t.Fatal(err)
		}
		j.devs = append(j.devs, dev)
		cfg := executor.Config{Job: collective.Job{Bootstrap: j.boots[r], Device: dev}}
		set(r, &cfg)
		e, err := executor.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		j.execs = append(j.execs, e)
	}
	return j
}

// each runs f for all ranks at once.
func (j *job) each(f func(r int) error) error {
	errs := make([]error, len(j.execs))
	var wg sync.WaitGroup
	for r := range j.execs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[r] = f(r)
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func (j *job) load(t testing.TB, p *plan.Plan, opts ...executor.Option) []*executor.ExecutionPlan {
	t.Helper()
	out := make([]*executor.ExecutionPlan, len(j.execs))
	if err := j.each(func(r int) (err error) {
		if out[r], err = j.execs[r].Load(bounded(t), p, opts...); err == nil {
			out[r].UseCores(1 + rand.IntN(3))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func (j *job) run(ctx context.Context, xs []*executor.ExecutionPlan, c planrun.Case) error {
	return j.each(func(r int) error {
		_, err := planrun.Rank(ctx, xs[r], r, j.devs[r], c)
		return err
	})
}

// shipped builds every program for n ranks.
func shipped(t testing.TB, n int, f func(name string, p *plan.Plan)) {
	for _, prog := range programs.All() {
		for _, inPlace := range []bool{false, true} {
			o := programs.Options{Ranks: n, InPlace: inPlace}
			if prog.Supports(o) != nil {
				continue
			}
			p, err := prog.Build(o)
			if err != nil {
				t.Fatal(err)
			}
			f(fmt.Sprintf("%s/%d/%v", prog.Name, n, inPlace), p)
		}
	}
}

// messages returns sizes that p takes: tails, even and uneven ones, in an order that makes scratch grow.
func messages(x *executor.ExecutionPlan, n int, elem int64, wants ...uint64) (out []uint64) {
	for _, w := range wants {
		w -= w % (uint64(n) * uint64(elem))
		if _, err := x.Plan().NewLayout(w); err == nil && w > 0 {
			out = append(out, w)
		}
	}
	return out
}
