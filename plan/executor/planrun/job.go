package planrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/transport"
)

// Options configures a run of cases by the ranks of a job.
type Options struct {
	Plan    *plan.Plan
	Cases   []Case
	Open    func(rank int) (device.Device, error)
	Timeout time.Duration // of each wait
	Trusted bool          // skip the verifier
	// Net is the network to ranks of other hosts; a rank uses its first adapter. Threads takes rank r to be on host
	// Hosts[r] if there are Hosts.
	Net   transport.Net
	Hosts []int
	// Report, when not nil, is called on rank 0 after each successful case, with the time of one execution on the
	// slowest rank.
	Report func(c Case, took time.Duration)
}

// Threads runs the job with all ranks in this process.
func Threads(ctx context.Context, o Options) error {
	n := len(o.Plan.GPUs)
	hosts := o.Hosts
	if hosts == nil {
		hosts = make([]int, n)
	}
	boots := bootstrap.NewLocalHosts(hosts).Ranks
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() { errs[r] = Join(ctx, boots[r], o) })
	}
	wg.Wait()
	return errors.Join(append(errs, device.CloseAll(boots...))...)
}

// Join runs one rank of the job.
func Join(ctx context.Context, boot bootstrap.Bootstrap, o Options) (err error) {
	rank := boot.Rank()
	if boot.WorldSize() != len(o.Plan.GPUs) {
		return fmt.Errorf("the plan is for %d ranks, the job has %d", len(o.Plan.GPUs), boot.WorldSize())
	}
	dev, err := o.Open(rank)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	e, err := executor.New(executor.Config{
		Job: collective.Job{Bootstrap: boot, Device: dev, OpTimeout: o.Timeout}, Net: o.Net})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	var opts []executor.Option
	if o.Trusted {
		opts = append(opts, executor.Trusted())
	}
	x, err := e.Load(ctx, o.Plan, opts...)
	if err != nil {
		return err
	}
	for _, c := range o.Cases {
		took, err := Rank(ctx, x, rank, dev, c)
		times, gather := bootstrap.GatherJSON(ctx, boot.AllGather, "times", took)
		if err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		if gather != nil {
			return gather
		}
		if rank == 0 && o.Report != nil {
			o.Report(c, slices.Max(times))
		}
	}
	return boot.Barrier(ctx)
}
