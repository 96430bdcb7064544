// Package core is what the C ABI does, in Go: handles, devices, communicators, operators and requests, with C's view of lifetime (a handle
// may be used after it was destroyed, and is told so) and C's view of errors (a code and a text). It is the same for goccl.h and, on top of
// that, for NCCL's ABI. Nothing here is exported to C; package capi does that.
//
// # Lifetime and threads
//
// Everything may be called from any goroutine. Devices live as long as the process. A communicator's handle is valid from Start to Destroy or
// Abort; what remains of it then is freed in the background, without the caller.
//
// # The hot path
//
// Submit takes no lock that is held while anything waits, and allocates nothing once a communicator has seen the stream.
package core
