// Package fdshare passes file descriptors (memfds, CUDA memory handles) to other processes of the same host and user.
//
// A process offers a descriptor and gets a [Ticket], which it may send over any channel. A holder of the ticket can
// fetch a duplicate, any number of times, until the offer is revoked. A ticket is a capability: it contains a 256-bit
// token and the random name of an abstract unix socket.
//
//  1. The fetcher connects, and both sides compare the other's user id (SO_PEERCRED) with their own.
//  2. The fetcher sends a fixed-size request: magic, offer number, token.
//  3. The server compares the token in constant time and answers with a status and, on success, exactly one
//     descriptor.
//
// # Lifetime and threads
//
// Everything may be used by several goroutines. The process-wide server starts with the first [Shared] and lives as
// long as the process; it holds two descriptors and one goroutine. Offer duplicates the descriptor, so the caller may
// close its own; revoke closes the duplicate. No file remains in the file system. All descriptors are close-on-exec.
// Fetch cannot reach a server in another network namespace.
package fdshare
