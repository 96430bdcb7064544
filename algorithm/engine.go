package algorithm

import "context"

// Engine runs the requests of one rank of one communicator. There are two: algorithm/shm for the host device and algorithm/nvlink for GPUs
// of one NVLink domain.
//
// Every rank must submit the same collectives in the same order; sends and receives only have to match pairwise. Enqueue is called by one
// goroutine at a time; Abort may be called from any.
type Engine interface {
	// Enqueue puts the requests of one group on their streams and returns without waiting for them to run. Sends and receives of one
	// call progress together, in any order. seq is the number of the first request; request i has seq+i. Nothing of reqs, nor of the slices
	// in it, is kept when Enqueue returns.
	Enqueue(seq uint64, reqs []Request) error
	// Abort makes every running and later request end with cause. Only the first cause counts.
	Abort(cause error)
	// Err is the cause of the abort, or the first error that a request met while it ran, or nil.
	Err() error
	// Drain waits until enqueued work is over, or ctx ends, and returns the error that this work met: nil when it was done, also if the engine was
	// aborted since. Work that is replayed from a graph, or that a host stream's own error keeps from running, is nobody's.
	Drain(ctx context.Context) error
	// Leave tells peers that nothing more will be enqueued here, where they would wait for it. What was enqueued is over.
	Leave()
	// Close frees what the engine holds. Work must have ended or have been aborted.
	Close() error
}

// Unaware is what engines also implement whose running work does not notice by itself that a peer has given up; the communicator then tells the
// peers.
type Unaware interface {
	// Unfinished reports whether enqueued work has not ended, or was cut short by Abort: a peer may wait for what it will not send. It may be
	// called from any goroutine, also after Close.
	Unfinished() bool
}
