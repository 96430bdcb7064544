// Package goccl provides communication between the ranks of a job, collective and point to point: on GPUs of one host
// or several or, without a GPU, on the host device.
//
// A job has WorldSize ranks, one per device; each rank makes one Comm. All ranks call the same collectives in the same
// order; sends and receives match pairwise. A call enqueues work on a stream and returns. The work runs in stream
// order.
//
// # Lifetime and threads
//
// Several goroutines may use a Comm, but collectives of one Comm must be submitted in the same order on every rank. A
// caller that submits from several goroutines must therefore order the calls itself. Abort, AsyncError and Close may be
// called from any goroutine at any time. A Comm owns neither its Bootstrap nor its Device: close those after the Comm.
// NewComm, Split and Shrink are collective, too: ranks make communicators of one Bootstrap in the same order.
//
// # Order
//
// The operations of a Comm run one after the other, in the order of the calls, even on different streams. On GPUs this
// also holds for captured operations: graph edges order the operations of one capture, and each graph launch counts as
// a call at the time of the launch. See Config.SeparateGraphs.
//
// # Failure
//
// Every wait ends, at the latest with Config.OpTimeout, unless that is off. When a rank dies, every other rank's Comm
// fails within about a second: running work ends, and AsyncError and later calls return an *Error that names the rank.
// Survivors can make a smaller communicator with Shrink.
//
// # Stable packages
//
// The API is this package with collective, datatype, device, device/cuda, device/host, job/bootstrap, primitive, plan,
// plan/dsl and plan/executor. Other packages can change at any time.
package goccl
