package algorithm

import "context"

// Engine runs the requests of one rank of one communicator. There are two engines: algorithm/shm for the host device,
// and algorithm/nvlink for GPUs of one NVLink domain.
//
// Every rank must submit the same collectives in the same order; sends and receives only have to match pairwise.
// Enqueue is called by one goroutine at a time; Abort may be called from any.
type Engine interface {
	// Enqueue puts the requests of one group on their streams and returns without waiting for them. Sends and receives
	// of one call progress together, in any order. seq is the number of the first request; request i has number seq+i.
	// Enqueue keeps no reference to reqs or its slices after it returns.
	Enqueue(seq uint64, reqs []Request) error
	// Abort makes every running and later request end with cause. Only the first cause counts.
	Abort(cause error)
	// Err returns the cause of the abort, else the first error of a request that ran, else nil.
	Err() error
	// Drain waits until enqueued work has ended, or until ctx ends, and returns the error of that work. It returns nil
	// if the work succeeded, even if the engine was aborted since. The error does not cover work replayed from a graph,
	// or work that a host stream skips because of its own error.
	Drain(ctx context.Context) error
	// Leave tells peers that this rank enqueues nothing more, if they would otherwise wait for it. All enqueued work
	// has ended.
	Leave()
	// Close frees the engine's resources. Work must have ended or have been aborted.
	Close() error
}

// Vetter is what engines also implement that find a caller's mistake, such as a buffer that is too short, before anything is numbered or enqueued. Only
// this rank sees it: it may call again, and its peers, which wait for that, then find the number that they have.
type Vetter interface {
	// Vet is called before Enqueue and in its order.
	Vet(seq uint64, reqs []Request) error
}

// Unaware is implemented by engines whose running work cannot see that a peer has aborted. The communicator then
// notifies the peers.
type Unaware interface {
	// Unfinished reports whether enqueued work has not ended, or was cut short by Abort. If so, a peer may wait for
	// data that this rank does not send. Any goroutine may call it, also after Close.
	Unfinished() bool
}
