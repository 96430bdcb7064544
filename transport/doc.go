// Package transport holds what the ways of moving bytes have in common: the Link, one direction of a connection, and the Remote, a place in
// the peer's memory. The ways themselves are transport/ipc (the same process, host shared memory, peer GPUs), transport/tcp (between
// hosts) and transport/ib (its place is kept).
//
// # Lifetime and threads
//
// A Link may be used by several goroutines; operations happen in the order in which they took its lock. Whoever makes a Link closes it. A
// Remote borrows memory: it must stay mapped until every operation on it is flushed.
package transport
