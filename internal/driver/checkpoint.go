package driver

import "time"

// CheckpointStep is a function of cuCheckpointProcess….
type CheckpointStep uint64

// The steps, numbered as in checkpoint of dispatch.c.
const (
	CheckpointState CheckpointStep = iota
	CheckpointLock
	CheckpointSave
	CheckpointRestore
	CheckpointUnlock
)

// Checkpoint calls the function for another process, and returns the state for CheckpointState. limit bounds
// CheckpointLock. It needs Load, and no context.
func Checkpoint(step CheckpointStep, pid int, limit time.Duration) (state int, err error) {
	return checkpoint(pid, step, limit.Milliseconds())
}

//cu:call checkpoint(pid int, step CheckpointStep, ms int64) (state int) = checkpoint(a)
