package main

import (
	"context"
	"fmt"
	"time"

	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/job/snapshot"
)

type snapshotCommand struct {
	Take    snapshotTake    `cmd:"" help:"Move the GPU state of processes to host memory. Their communicators are suspended."`
	Restore snapshotRestore `cmd:"" help:"Move it back to the GPUs, and let the processes go on."`
	State   snapshotState   `cmd:"" help:"Say which of the processes run, and which are locked or checkpointed."`
}

type snapshotTake struct {
	Timeout time.Duration `default:"60s" help:"After this time the processes are left as they were."`
	PIDs    []int         `arg:"" name:"pid" help:"All ranks of a job on this host."`
}

type snapshotRestore snapshotTake

type snapshotState struct {
	PIDs []int `arg:"" name:"pid"`
}

func (c *snapshotTake) Run(ctx context.Context, s *streams) error {
	return c.timed(ctx, s, "checkpointed", snapshot.Take)
}

func (c *snapshotRestore) Run(ctx context.Context, s *streams) error {
	return (*snapshotTake)(c).timed(ctx, s, "restored", snapshot.Restore)
}

func (c *snapshotTake) timed(ctx context.Context, s *streams, done string,
	step func(context.Context, []int) error) error {
	ctx, stop := context.WithTimeout(ctx, c.Timeout)
	defer stop()
	begin := time.Now()
	if err := step(ctx, c.PIDs); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, "%d processes %s in %d ms\n", len(c.PIDs), done, time.Since(begin).Milliseconds())
	return err
}

func (c *snapshotState) Run(_ context.Context, s *streams) error {
	if err := cuda.Available(); err != nil {
		return err
	}
	for _, pid := range c.PIDs {
		state, err := cuda.Process(pid).State()
		if err != nil {
			return fmt.Errorf("process %d: %w", pid, err)
		}
		if _, err := fmt.Fprintf(s.out, "%d %v\n", pid, state); err != nil {
			return err
		}
	}
	return nil
}
