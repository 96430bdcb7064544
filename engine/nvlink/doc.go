// Package nvlink runs collectives on GPUs of one host, which share memory: each other's, or host memory. The hot path
// is one kernel launch per collective.
//
// # Flow of a collective
//
//  1. choose     a variant and its launch shape, from the collective, its size and the number of ranks (table.go)
//  2. fill       the kernel's parameters: addresses and sizes only; epochs are in device memory, so a graph can replay
//     a launch
//  3. launch     on the caller's stream, after this communicator's work on other streams and in graphs (cuda.Order):
//     one call into the driver
//  4. finish     each block adds 1 to a word in device memory (kernels/collective/ticket.cuh), which later work on
//     another stream waits for
//
// Data crosses the link without the host, in one of three ways (kernels/collective):
//
//	packets   carry their own flag, so they need no fence and no handshake: small and medium sizes (protocol.cuh)
//	ring      plain stores of whole lines to the next rank only, one flag per part: large reductions, all-gathers and
//	          broadcasts (ring.cuh, ring_fold.cuh)
//	streams   to one peer after another: bulk copies into its mapped buffer, else plain stores of pieces, one flag per
//	          piece: large messages, all-to-alls, and other large transfers that the table assigns to them (stream.cuh)
//
// A large all-gather or all-to-all into a window that all ranks have registered runs as copies between two barriers
// instead (copy_engine.go, windows.go).
//
// # Links
//
// Arenas lie on the best link kind that works for all pairs of ranks (link_kind.go, link_selection.go): memory of the
// GPUs, over NVLink or PCIe, or page-locked memory of the host. The driver's promise of peer access is not enough: a
// probe stores, copies and loads through the arenas and compares the data (probe.go). The same kernels serve all link
// kinds, except that kernels of the LL128 protocol need NVLink.
//
// # Memory
//
// A communicator starts with an arena of 4 MiB, which serves small operations. The memory of large ones, up to 48 MiB
// for four ranks, is made piece by piece when the first operation needs it, also in a capture (piece.go, share.Pieces).
// Where addresses cannot be reserved, the arena has everything from the start.
//
// # Failure
//
// Kernels poll an abort word in mapped host memory. Abort sets it. A waiting kernel then writes the peer that it waited
// for and returns, so the CUDA context stays usable. A watcher goroutine reads that report and turns it into an
// *collective.Error. A kernel does not see that a peer has aborted: the communicator notifies the peers
// (Engine.SeesAborts).
//
// # Lifetime and threads
//
// Enqueue is called by one goroutine at a time (goccl.Comm holds a lock). Any goroutine may call Abort, Err and Close.
// Close aborts the kernels and waits until they return.
package nvlink
