// Package membership decides who belongs to a communicator: it watches its ranks, tells the peers that a rank leaves or
// gives up, and has what Split, Grow and Shrink agree on.
//
// A Group is one rank's membership. Its Status holds the first cause of the communicator's end, Notices tell the peers
// of an abort or a close, a JointCall is a call that all ranks make together, and Process is where a rank runs.
//
// # Lifetime and threads
//
// A Group lives as long as the bootstrap group that it is made on; Wait ends it. Its methods may be called from any
// goroutine, a JointCall from one.
package membership
