// Package cudawire moves bytes between GPUs of different hosts: it implements wire.Wire with kernels and a network.
//
// # Flow of a phase
//
//  1. Run      turns the phase into the parameters of one launch: items (messages and reductions) in tasks, one row of
//     blocks each (phase.go)
//  2. kernel   copies chunks of messages into slots of pinned memory and posts them; takes the chunks of the peers from
//     slots of the same kind, copies them to their place or reduces them (kernels/hosts/wire.cuh)
//  3. proxy    a goroutine that polls the posts, and puts each slot into the same slot of the peer (proxy.go); while it
//     polls, it also takes what arrives (arrivals.go)
//  4. arrival  a callback of the network stores the number of arrivals of a slot, which the peer's kernel polls
//
// The host takes no part in what a kernel does next, and all counts are in device memory: phases can be captured in a
// graph and replayed. The proxy sends posted slots, whether a call or a replay launched the kernel.
//
// Where the network can reach memory of the GPU, the slots are there (link.go); otherwise in page-locked host memory,
// which the kernels access over PCIe.
//
// # Memory
//
// A connected peer takes 2 · lanes · slots · slotBytes of page-locked memory (geometry.go): 8 MiB with up to 17
// hosts, and less with more, so that the peers of one rail take at most 128 MiB.
//
// # Failure
//
// A broken connection, a failed put, an aborted communicator and a wait that exceeds its limit set the abort word,
// which kernels poll. Err names the peer.
//
// # Lifetime and threads
//
// Connect and Run are called by one goroutine at a time, Abort and Err by any. Close comes after Drain or Abort.
package cudawire
