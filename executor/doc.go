// Package executor runs execution plans: any verified plan, on the host device or on GPUs, over any message size that the plan takes.
//
// # Flow
//
//  1. Load      verify (once for each distinct plan of the process), agree with the other ranks, compile this rank's ops, map the windows
//  2. Execute   lay out the message, place the buffers, enqueue one launch; collective in the sense of MPI: every rank executes the same
//     plans with the same message, type and operator in the same order
//  3. launch    every thread block of the plan runs its ops; see run.go for the host and kernels/executor for GPUs
//
// # What ranks share
//
// Each plan has, on each rank, a control window (signal counters, and what the rank says of its running launch) and a scratch window. The
// control window never changes. Scratch is as large as the largest chunk so far needs; a larger message exchanges a new one, once, in Execute,
// before anything is enqueued. Reserve does it beforehand.
//
// Signal counters, semaphores and epochs live on from launch to launch, so a failed launch leaves them out of step with the peers: after a
// failure every Execute returns that failure.
//
// # Buffers
//
// Only input and output that a peer touches need to be reachable by it. In one process all are. Between processes, memory of a device
// allocation is mapped on first use and the mapping is kept; other memory is staged through a buffer of the executor's own. Plans made for one
// of in place and out of place run the other too, with one more copy.
//
// # Lifetime and threads
//
// An Executor outlives its plans. Execute is called by one goroutine at a time for each Executor, Abort and Err by any. Close after the
// work has ended or been aborted.
package executor
