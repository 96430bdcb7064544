package perf

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
)

// tuneRank is the work of one rank. It closes boot.
type tuneRank func(ctx context.Context, boot bootstrap.Bootstrap, local, localSize int, layout string) error

// everyRank runs rank on every rank: on this process's if a launcher started it; else on the ranks that it starts, as
// processes, by this command again, or as threads.
func (o *TuneOptions) everyRank(ctx context.Context, kind device.Kind, layout string, rank tuneRank) error {
	env, err := bootstrap.FromEnv()
	if err == nil {
		boot, err := bootstrap.Join(ctx, env)
		if err != nil {
			return fmt.Errorf("tune: join: %w", err)
		}
		return rank(ctx, boot, bootstrap.LocalRank(boot), bootstrap.LocalSize(boot), LayoutProcesses)
	}
	if !errors.Is(err, bootstrap.ErrNoLauncher) {
		return err
	}
	n := o.Ranks
	if n == 0 {
		if n, err = gpus(kind); err != nil {
			return err
		}
	}
	start := Options{Command: o.Command, Stdout: o.Stdout, files: o.files, Stderr: o.Stderr, Hosts: o.Hosts,
		Ranks: o.Ranks, Layout: o.Layout}
	if o.Hosts > 0 {
		return start.onHosts(ctx, kind, n)
	}
	if n < 2 {
		return invalid("%d ranks: nothing to choose from with fewer than two", n)
	}
	if layout != LayoutThreads {
		return start.start(ctx, n)
	}
	return ranksAsThreads(ctx, n, func(ctx context.Context, boot bootstrap.Bootstrap, i int) error {
		return rank(ctx, boot, i, n, LayoutThreads)
	})
}

// crowded reports whether more processes than processors share a host.
func crowded(processes bool, kind device.Kind, localSize int) bool {
	return processes && kind == device.Host && localSize > runtime.GOMAXPROCS(0)
}
