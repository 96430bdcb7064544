package core

import (
	"context"
	"time"

	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/job/snapshot"
)

// snapshotLimit is the time for a snapshot whose caller gives none.
const snapshotLimit = time.Minute

// SnapshotTake moves the GPU state of processes to host memory.
func SnapshotTake(pids []int32, limit time.Duration) error {
	return eachProcess(snapshot.Take, pids, limit)
}

// SnapshotRestore moves it back.
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

// SnapshotState is what the driver has done to a process: 0 it runs, 1 it is locked, 2 checkpointed, 3 failed.
func SnapshotState(pid int32) (int32, error) {
	if err := cuda.Available(); err != nil {
		return 0, err
	}
	s, err := cuda.Process(pid).State()
	return int32(s), err
}
