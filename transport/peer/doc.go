// Package peer holds what every transport.Peer keeps, whatever its network is: the counters of immediates and their
// waiters (Arrivals), the puts that have not arrived yet (Pending), and the error that broke the Peer (Failure).
//
// # Memory order
//
// A network makes the bytes of a put visible before it calls Arrivals.Arrive. The counters are atomic, so a reader that
// sees the count sees the bytes.
//
// # Lifetime and threads
//
// All types may be used by several goroutines. Their zero values are ready for use, except Failure. They hold no
// resources.
package peer
