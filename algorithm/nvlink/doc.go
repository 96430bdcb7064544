// Package nvlink runs collectives on GPUs that map each other's memory: one kernel launch per collective, and nothing else on the hot path.
//
// # Flow of a collective
//
//  1. choose     a variant and its launch shape, from the collective, its size and the number of ranks (table.go)
//  2. fill       the kernel's parameters: addresses and sizes only; epochs live in device memory, so a launch can be replayed from a graph
//  3. launch     on the caller's stream, ordered after this communicator's work on other streams and in graphs (cuda.Order): one call of the driver's door
//  4. finish     each block adds 1 to a word in device memory (kernels/collective/ticket.cuh): what work on another stream would wait for
//
// Data crosses NVLink without the host, in one of three ways (kernels/collective):
//
//	packets   carry their own flag, so there is no fence and no handshake: all that is not large (protocol.cuh)
//	ring      whole lines by plain stores to the next rank only, a flag for each part: large reductions, all-gathers and broadcasts (ring.cuh, ring_fold.cuh)
//	streams   pieces by plain stores to one peer after another, a flag each: large messages, all-to-alls and what the table leaves to them (stream.cuh)
//
// Large all-gathers and all-to-alls into a window that all ranks have registered are copies between two barriers instead (copy_engine.go, symmetric.go).
//
// # Failure
//
// Kernels poll an abort word in mapped host memory. Abort sets it; a kernel that waits then writes who it waited for and returns, so the
// CUDA context stays usable. A watcher reads that report and turns it into an *algorithm.Error. A kernel does not see that a peer has aborted: the
// communicator tells the peers (algorithm.Unaware).
//
// # Lifetime and threads
//
// Enqueue is called by one goroutine at a time (goccl.Comm holds a lock); Abort, Err and Close may be called from any. Close waits for the
// kernels to return, after aborting them.
package nvlink
