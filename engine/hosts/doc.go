// Package hosts runs collectives of ranks on several hosts. It composes two engines: the engine of one host
// (engine/shm, engine/nvlink) on the ranks of this host, and a wire (engine/hosts/wire) to ranks of other hosts.
//
// # Flow of a collective
//
//  1. The schedule (schedule.go, reductions.go, moves.go) divides a request into chunks. For each chunk it says what
//     the local engine does before, which messages go over the wire, and what the local engine does after. It depends
//     on the topology and the request only: all ranks compute matching schedules without a message.
//  2. The engine enqueues the chunks: one chunk on the caller's stream, several on two streams, one for the local
//     engine and one for the wire, so that the network carries a chunk while the host works on the next.
//
// # Rails
//
// Large messages use all ranks of a host: rail k connects local rank k of each host. A reduction is divided among the
// rails inside the host first, so that each byte crosses the network once for each other host, and the network adapters
// near all ranks work. A rank talks only to ranks of its rails, except for send, recv and all-to-all-v, which go
// directly. Hosts may have different numbers of ranks.
//
// # Order of reduction
//
// A reduction sums inside each host first, in rank order, and then over hosts in the order of their lowest ranks. One
// rank combines each element, or all do so in the same order: all ranks get the same bits.
//
// # Memory
//
// A communicator has a scratch of 2 × 16 MiB on GPUs and 2 × 8 MiB on the host device, there from the first large
// request on (scratch.go), and for each peer of its rails the boxes of the wire (engine/hosts/hostwire,
// engine/hosts/cudawire).
//
// # Room on a GPU
//
// Kernels of the local engine and of the wire run at the same time and wait for peers. All blocks of both must be
// resident, whichever come first: the local engine leaves a third of the SMs, and the wire has one block on each.
//
// # Failure
//
// A failure of the local engine or of the wire ends both, and the communicator tells the ranks of other hosts
// (SeesAborts is false).
//
// # Lifetime and threads
//
// Like every collective.Engine: calls of Enqueue come one at a time, Abort from any goroutine.
package hosts
