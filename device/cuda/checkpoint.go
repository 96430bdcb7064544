package cuda

import (
	"time"

	"github.com/goccl/goccl/internal/driver"
)

// Process is a process of this machine, by its id, whose GPU state the driver can move to host memory. Drivers before
// release 570 cannot.
type Process int

// ProcessState is what the driver has done to a process.
type ProcessState int

// The states. In all except Running, calls of the driver wait.
const (
	Running ProcessState = iota
	Locked
	Checkpointed // it has no GPU memory, and no GPU
	Failed       // it cannot go on
)

// String returns a word such as "locked".
func (s ProcessState) String() string {
	if names := [...]string{"running", "locked", "checkpointed", "failed"}; s >= 0 && int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

// State returns the state.
func (p Process) State() (ProcessState, error) {
	s, err := driver.Checkpoint(driver.CheckpointState, int(p), 0)
	return ProcessState(s), err
}

// Lock waits until the work of a running process has ended, at most for limit, and makes its later calls wait.
func (p Process) Lock(limit time.Duration) error { return p.step(driver.CheckpointLock, limit) }

// Checkpoint moves the state of a locked process to host memory. The process maps no memory of others.
func (p Process) Checkpoint() error { return p.step(driver.CheckpointSave, 0) }

// Restore makes a checkpointed process a locked one.
func (p Process) Restore() error { return p.step(driver.CheckpointRestore, 0) }

// Unlock makes a locked process a running one.
func (p Process) Unlock() error { return p.step(driver.CheckpointUnlock, 0) }

func (p Process) step(s driver.CheckpointStep, limit time.Duration) error {
	_, err := driver.Checkpoint(s, int(p), limit)
	return err
}
