// Package peercred says who is at the other end of a unix socket: the kernel's word, which a process cannot forge.
//
// # Lifetime and threads
//
// Nothing is kept. UID may be called from any goroutine while the connection is open.
package peercred
