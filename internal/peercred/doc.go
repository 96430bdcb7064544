// Package peercred identifies the user at the other end of a unix socket, as reported by the kernel, which a process
// cannot forge.
//
// # Lifetime and threads
//
// The package keeps no state. UID may be called from any goroutine while the connection is open.
package peercred
