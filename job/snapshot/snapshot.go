// Package snapshot moves the GPU state of processes to host memory, where tools like CRIU find it, and back. It uses
// the checkpoint functions of the driver, release 570 and newer, which refuse a process that maps memory of another
// one. So for the ranks of a job:
//
//  1. Every rank suspends its communicators (goccl.Comm.Suspend, ncclCommSuspend), which unmaps the memory of peers.
//     Buffers that GOCCL_REGISTER has mapped stay mapped, so jobs that are moved have it off.
//  2. Take locks all processes, and then moves the state of each. A process that calls the driver waits from now on.
//  3. Restore moves the state back, on the same addresses, and then unlocks all processes.
//  4. Every rank resumes its communicators. Graphs that were captured before may be launched.
//
// Each rank has a GPU for itself: where two share one, a kernel faults after Restore (driver 580).
//
// The caller is a process apart from the ranks, with the rights to trace them. Several goroutines may use the package.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/fault"
)

// Take moves the GPU state of the processes to host memory. If that fails for one of them, or ctx ends, it is undone
// where that is possible, and the error names the process. ctx needs a deadline: a process whose GPU waits for a peer
// cannot be locked.
func Take(ctx context.Context, pids []int) error {
	if err := cuda.Available(); err != nil {
		return err
	}
	end, bounded := ctx.Deadline()
	if !bounded {
		return fmt.Errorf("snapshot: %w: the context has no deadline", fault.ErrInvalidArgument)
	}
	if err := each(ctx, pids, "look at", running); err != nil {
		return err
	}
	err := each(ctx, pids, "lock", func(p cuda.Process) error { return p.Lock(max(time.Millisecond, time.Until(end))) })
	if err == nil {
		err = each(ctx, pids, "checkpoint", cuda.Process.Checkpoint)
	}
	if err != nil {
		undo, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer stop()
		err = errors.Join(err, Restore(undo, pids))
	}
	return err
}

func running(p cuda.Process) error {
	s, err := p.State()
	if err == nil && s != cuda.Running {
		err = fmt.Errorf("%w: it is %v", fault.ErrInvalidArgument, s)
	}
	return err
}

// Restore undoes Take. Processes that are not locked or checkpointed stay as they are.
func Restore(ctx context.Context, pids []int) error {
	if err := cuda.Available(); err != nil {
		return err
	}
	return errors.Join(each(ctx, pids, "restore", from(cuda.Checkpointed, cuda.Process.Restore)),
		each(ctx, pids, "unlock", from(cuda.Locked, cuda.Process.Unlock)))
}

// from calls step for a process in a state.
func from(state cuda.ProcessState, step func(cuda.Process) error) func(cuda.Process) error {
	return func(p cuda.Process) error {
		if now, err := p.State(); err != nil || now != state {
			return err
		}
		return step(p)
	}
}

// each calls step for all processes at once, and waits until all calls have returned or ctx ends.
func each(ctx context.Context, pids []int, what string, step func(cuda.Process) error) error {
	results := make([]chan error, len(pids))
	for i, pid := range pids {
		results[i] = make(chan error, 1)
		go func() { results[i] <- step(cuda.Process(pid)) }()
	}
	var errs []error
	for i, pid := range pids {
		select {
		case err := <-results[i]:
			if err != nil {
				errs = append(errs, fmt.Errorf("snapshot: %s process %d: %w", what, pid, err))
			}
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("snapshot: %s process %d: %w: is its GPU busy, or were its communicators not "+
				"suspended?", what, pid, fault.ErrTimeout))
		}
	}
	return errors.Join(errs...)
}
