package collective

import (
	"context"
	"io"

	"github.com/goccl/goccl/device"
)

// Engine runs the requests of one rank of one communicator. engine/shm runs on the host device, engine/nvlink
// on the GPUs of a host, engine/hosts across hosts. An engine that lacks one of the parts below embeds Plain.
//
// Every rank must submit the same collectives in the same order; sends and receives only have to match pairwise. Check,
// Enqueue, Follow, Drain, Leave and RegisterWindow are called by one goroutine at a time; the others may be called from
// any. Requests are valid (Request.Validate): an engine checks only what needs its device.
type Engine interface {
	// Check finds mistakes of this rank's caller, such as a buffer that extends beyond its allocation, before anything
	// is numbered or enqueued. The caller may then call again, and its peers find the number that they expect. seq and
	// reqs will be passed to the Enqueue that follows.
	Check(seq uint64, reqs []Request) error
	// Enqueue puts the requests of one group on their streams and returns without waiting for them. Sends and receives
	// of one call progress together, in any order. seq is the number of the first request; request i has number seq+i.
	// Enqueue keeps no reference to reqs or its slices after it returns.
	Enqueue(seq uint64, reqs []Request) error
	// Follow makes later work on s, which the engine does not enqueue, follow the engine's work, and later work of the
	// engine follow that.
	Follow(s device.Stream) error
	// Abort makes every running and later request end with cause. Only the first cause counts.
	Abort(cause error)
	// Err returns the cause of the abort, else the first error of a request that ran, else nil.
	Err() error
	// Drain waits until enqueued work has ended, or until ctx ends, and returns the error of that work. It returns nil
	// if the work succeeded, even if the engine was aborted since. The error does not cover work replayed from a graph,
	// or work that a host stream skips because of an earlier error.
	Drain(ctx context.Context) error
	// Leave tells peers that this rank enqueues nothing more, if they would otherwise wait for it. All enqueued work
	// has ended.
	Leave()
	// SeesAborts reports whether running work of the peers detects by itself that this rank has aborted or left.
	// Otherwise the communicator notifies the peers.
	SeesAborts() bool
	// Unfinished reports, for an engine that does not see aborts, whether enqueued work has not ended, or was cut short
	// by Abort. If so, a peer may wait for data that this rank does not send. It may be called after Close.
	Unfinished() bool
	// RegisterWindow registers the size bytes at p as this rank's part of the next window: memory that all ranks
	// register together, each rank its own part, all of the same size and in the same order. A buffer in a window must
	// have the same offset on every rank. RegisterWindow waits for no peer. Nothing may use the window after its Close
	// is called. Close follows the threading rule of Enqueue, and may also be called after the engine's Close.
	RegisterWindow(p device.Ptr, size int64) (io.Closer, error)
	// Algorithms lists the engine's algorithms, sorted by collective, and within a collective in the order of the
	// engine's documentation. The engine obeys those choices of Forced that name one of its Forceable algorithms. It
	// ignores other names: they may belong to algorithms that are registered later.
	Algorithms() []Info
	// TableName is the name of the measured table that chooses among the algorithms, or "none".
	TableName() string
	// Close frees the engine's resources. Work must have ended or have been aborted.
	Close() error
}

// Plain implements the parts of Engine that an engine may lack. It finds no mistakes, uses no windows and no table, and
// its running work detects a peer's abort by itself.
type Plain struct{}

// Check finds no mistake.
func (Plain) Check(uint64, []Request) error { return nil }

// Follow is a no-op: whoever enqueues other work must order it.
func (Plain) Follow(device.Stream) error { return nil }

// SeesAborts returns true.
func (Plain) SeesAborts() bool { return true }

// Unfinished returns false.
func (Plain) Unfinished() bool { return false }

// RegisterWindow accepts any window and does not use it.
func (Plain) RegisterWindow(device.Ptr, int64) (io.Closer, error) { return unused{}, nil }

// TableName returns "none".
func (Plain) TableName() string { return "none" }

// unused is a window that no collective uses.
type unused struct{}

func (unused) Close() error { return nil }
