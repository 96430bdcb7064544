// Package ipc moves bytes between memories that both sides map: in one process, between processes of one host, and between the GPUs of one
// machine.
//
// A Share is an exported allocation in a form that travels: for memory with a descriptor (a memfd, or a VMM allocation of CUDA) the ticket by
// which package internal/fdshare hands the descriptor out, for ordinary cudaMalloc memory the legacy IPC handle. An Importer maps shares, each
// allocation once for each device, however many memories lie in it.
//
// Two links move the bytes. The host link copies in the caller. The stream link enqueues copies on a stream, and signals by a
// stream-ordered store of the counter's next value: no kernel takes part, so a copy makes progress even when the user's kernel, which may be
// the one that waits for it, fills the GPU.
//
// # Lifetime and threads
//
// Offer's revoke ends the ticket; what was mapped stays mapped. A Mapping is released once for each Map. Links follow transport.Link.
package ipc
