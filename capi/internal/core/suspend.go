package core

import (
	"context"
	"fmt"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/job/snapshot"
)

func CommSuspendStart(a Active) error { return a.background(false, (*goccl.Comm).Suspend) }

func CommResumeStart(a Active) error { return a.background(true, (*goccl.Comm).Resume) }

// background runs f in the background, after earlier background work: one thread may call it for several ranks.
// suspended is what the communicator must be: a wrong call is no failure of the communicator.
func (a Active) background(suspended bool, f func(*goccl.Comm, context.Context) error) error {
	before := a.c.last.Load()
	if m, err := a.inner.Memory(); err != nil {
		return err
	} else if !before.running() && m.Suspended != suspended {
		return fmt.Errorf("%w: the communicator is suspended: %v", ErrInvalidUsage, m.Suspended)
	}
	t := start(func(ctx context.Context) error {
		select {
		case <-before.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return f(a.inner, ctx)
	})
	a.c.apart.Store(t)
	a.c.last.Store(t)
	return nil
}

func CommMemory(r Ready) (suspendable, persistent uint64, suspended bool, err error) {
	m, err := r.inner.Memory()
	return uint64(m.Suspendable), uint64(m.Persistent), m.Suspended, err
}

// snapshotLimit is the time for a snapshot whose caller gives none.
const snapshotLimit = time.Minute

func SnapshotTake(pids []int32, limit time.Duration) error {
	return eachProcess(snapshot.Take, pids, limit)
}

func SnapshotRestore(pids []int32, limit time.Duration) error {
	return eachProcess(snapshot.Restore, pids, limit)
}

func eachProcess(step func(context.Context, []int) error, pids []int32, limit time.Duration) error {
	list := make([]int, len(pids))
	for i, p := range pids {
		list[i] = int(p)
	}
	if limit <= 0 {
		limit = snapshotLimit
	}
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	return step(ctx, list)
}

func SnapshotState(pid int32) (int32, error) {
	if err := cuda.Available(); err != nil {
		return 0, err
	}
	s, err := cuda.Process(pid).State()
	return int32(s), err
}
