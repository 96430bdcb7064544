// Package ipc moves bytes between memories that both sides map: in one process, between processes of one host, and
// between the GPUs of one machine.
//
// Two links move the bytes. The host link copies in the caller. The stream link enqueues copies on a stream, and
// signals by a stream-ordered store of the counter's next value. It uses no kernel, so a copy makes progress even when
// the user's kernel, which may be waiting for it, occupies the whole GPU.
//
// # Lifetime and threads
//
// Links follow transport.Link. Package share maps the memory that they write to.
package ipc
