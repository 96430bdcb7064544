// Package goccl lets the ranks of a job exchange and reduce data: on GPUs of one NVLink domain, or, with no GPU, on the host device.
//
// A job has WorldSize ranks, one per device; each rank makes one Comm. All ranks call the same collectives in the same order; sends and
// receives match pairwise. A call puts work on a stream and returns; the work runs when the stream gets there.
//
// # Lifetime and threads
//
// A Comm may be used by several goroutines, but collectives of one Comm must be submitted in the same order on every rank, so a caller that
// submits from several goroutines orders them itself. Abort, AsyncError and Close may be called from any goroutine at any time. A Comm owns
// neither its Bootstrap nor its Device: close those after the Comm. NewComm, Split and Shrink are collective, too: ranks make communicators
// of one Bootstrap in the same order.
//
// # Order
//
// The operations of a Comm run one after the other, in the order of the calls, on whatever streams they are. On GPUs that holds for captured operations, too:
// within a capture by edges of the graph, and a launch of the graph counts as a call at its time. See Config.SeparateGraphs.
//
// # Failure
//
// No call waits for ever. When a rank dies, every other rank's Comm fails within about a second: running work ends, AsyncError and later
// calls return an *Error that names the rank. Survivors can make a smaller communicator with Shrink.
package goccl
