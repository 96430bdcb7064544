// Package executor runs execution plans: any verified plan, on the host device or on GPUs, over any message size that
// the plan takes.
//
// # Flow
//
//  1. Load      verify (once for each distinct plan of the process), agree with the other ranks, compile this rank's
//     ops, map the arenas
//  2. Execute   lay out the message, place the buffers, enqueue one launch; collective in the sense of MPI: every rank
//     executes the same plans with the same message, type and operator in the same order
//  3. launch    every thread block of the plan runs its ops; see run.go for the host and kernels/executor for GPUs
//
// # What ranks share
//
// Each plan has, on each rank, a control arena (signal counters, and the record of the rank's running launch) and a
// scratch arena. The control arena never changes. Scratch is sized for the largest chunk so far. For a larger
// message, all ranks exchange a new scratch arena, once, in Execute, before anything is enqueued. Reserve does this in
// advance.
//
// Signal counters, semaphores and epochs persist from launch to launch, so a failed launch leaves them out of step with
// the peers. After a failure every Execute returns that failure.
//
// # Several hosts
//
// Port channels lead to ranks of other hosts too. All else is shared among the ranks of one host only.
//
// On a GPU, blocks copy puts and signals into slots of rings, which a proxy brings to the peer (engine/hosts/cudawire),
// and blocks behind the plan's blocks take arriving data and store it (rings.go, kernels/executor/far.cuh).
//
// On the host device, network.go has the connections. A put names its destination as plan, plane and offset; the
// receiver resolves the name (remote.go). So ranks exchange only the keys of scratch, and put straight into it.
// A put to input or output is copied by the receiver's network goroutine, and only while a launch of the plan runs
// there. The first command of a launch has the launch's signature, as its record in the control arena does for the
// ranks of the host.
//
// # Buffers
//
// A peer needs access only to the input and output that it touches. In one process it always has access. Between
// processes, memory of a device allocation is mapped on first use and the mapping is kept; other memory is staged
// through a buffer of the executor. A plan made for in-place buffers also runs out of place, and the reverse, with one
// more copy.
//
// # Lifetime and threads
//
// An Executor outlives its plans. Only one goroutine at a time calls Execute of an Executor; any goroutine may call
// Abort and Err. Call Close after the work has ended or has been aborted.
package executor
