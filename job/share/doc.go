// Package share makes memory of one rank usable by others of the same host. It is the only place that exports and maps
// memory.
//
//	export     Export describes an allocation: the ticket of its file descriptor (a memfd, or a VMM allocation of CUDA;
//	           internal/fdshare passes it), the legacy IPC handle of cudaMalloc memory, or an address (same process)
//	map        Map maps what a Descriptor describes: an allocation once per process and device, for all users
//	here       Here makes memory of one device usable by another device of the same process
//	parts      Exchange maps one part of memory of each rank into all ranks
//	arena      NewArena does the same with new memory of each rank, for the set-up of engines
//	flat       Flat maps parts at equal distances: part r at base + r·stride, for kernels that compute addresses
//	window     Windows does the same in the background, for memory that users register (NCCL's symmetric windows)
//	pieces     Pieces are arenas that are made at their first use, by all ranks in the background
//	directory  Directory shares users' buffers of the host device at their first use, without a meeting of the ranks
//	buffers    Buffers does it for GPUs: it tells a rank where the peers have mapped its buffers
//
// # The exchange
//
// Exchange, arenas and windows use one protocol of two rounds. In a round every rank sends a record to all others.
//
//  1. offer    every rank sends the size and the Descriptor of its part, or the reason why it has none
//  2. verdict  every rank maps the parts of the others and then sends whether it could, or the reason why not
//
// The parts are used if no rank has sent a reason. All ranks read the same records, so they come to the same result,
// and none waits for a rank that has failed. After round 2 no rank needs the file descriptors: the offers are revoked.
//
// # Ownership and lifetime
//
// The owner of memory frees it; share never does, except for arenas. A Mapping keeps the physical memory, not the
// owner's address. Each user of a mapping closes its own Mapping; the last Close unmaps. So that memory which its owner
// has freed does not stay mapped, windows are closed by every rank, and Directory and Buffers tell the peers.
// Work that uses a mapping must have ended before it is closed.
//
// # Threads
//
// Several goroutines may use everything here, except that one Parts, Arena or Window has one user at a time. No call
// waits for ever: calls that wait take a context, or have a limit in their configuration.
package share
