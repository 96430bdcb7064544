// Package fdshare hands file descriptors (memfds, CUDA memory handles) to other processes of the same host and user.
//
// A process offers a descriptor and gets a [Ticket], which travels by any channel. Whoever holds the ticket fetches a duplicate, as often as it
// likes, until the offer is revoked. A ticket is a capability: it carries a 256-bit token and names an abstract unix socket with a random name.
//
//  1. The fetcher connects, and both sides compare the other's user id (SO_PEERCRED) with their own.
//  2. The fetcher sends a fixed-size request: magic, offer number, token.
//  3. The server compares the token in constant time and answers with a status and, with it, exactly one descriptor.
//
// # Lifetime and threads
//
// Everything may be used by several goroutines. The process-wide server starts with the first [Shared] and lives as long as the process; it
// holds two descriptors and one goroutine. Offer duplicates the descriptor, so the caller may close its own; revoke closes the duplicate. Nothing
// is left in the file system. Descriptors are close-on-exec throughout. In a network namespace other than the server's, Fetch does not find it.
package fdshare
