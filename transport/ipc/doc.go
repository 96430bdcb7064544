// Package ipc moves bytes between memories that both sides map: in one process, between processes of one host, and
// between the GPUs of one machine.
//
// A Share describes an exported allocation for other processes. For memory with a descriptor (a memfd, or a VMM
// allocation of CUDA) it contains the ticket by which package internal/fdshare passes the descriptor, for ordinary
// cudaMalloc memory the legacy IPC handle. An Importer maps shares. It maps each allocation once per device, however
// many memories lie in it.
//
// Two links move the bytes. The host link copies in the caller. The stream link enqueues copies on a stream, and
// signals by a stream-ordered store of the counter's next value. It uses no kernel, so a copy makes progress even when
// the user's kernel, which may be waiting for it, occupies the whole GPU.
//
// # Lifetime and threads
//
// Offer's revoke ends the ticket; existing mappings remain. A Mapping is released once for each Map. Links follow
// transport.Link.
package ipc
