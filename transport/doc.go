// Package transport defines what all transports share: the Link, one direction of a connection, and the Remote, a
// location in the peer's memory. Links within a host are in transport/ipc (the same process, host shared memory, peer
// GPUs). Net is the interface of networks (transport/tcp, transport/ib, transport/plugin); transport/link makes a Link
// over any of them.
//
// # Lifetime and threads
//
// Several goroutines may use a Link; operations happen in the order in which they took its lock. The maker of a Link
// closes it. A Remote borrows memory: it must stay mapped until every operation on it is flushed.
package transport
