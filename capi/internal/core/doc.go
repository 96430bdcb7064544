// Package core implements the C ABI in Go: handles, devices, communicators, operators and requests. It follows C's view
// of lifetime (the use of a destroyed handle is an error) and of errors (a code and a text). It serves goccl.h and, on
// top of that, NCCL's ABI. Package capi exports it to C. The headers of capi document the exported functions; comments
// here say what those do not.
//
// # Lifetime and threads
//
// Every function may be called from any goroutine. Devices live as long as the process. A communicator's handle is
// valid from Start to Destroy or Abort; the communicator's resources are then freed in the background.
//
// # The hot path
//
// Submit takes no lock that is held while anything waits, and allocates nothing once a communicator has seen the
// stream.
package core
