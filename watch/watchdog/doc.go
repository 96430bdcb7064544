// Package watchdog finds out why an operation of a communicator waits.
//
//  1. The recorder calls long for an operation that waits. Every rank that waits takes the next steps by itself.
//  2. The rank asks its peers for their records, over the bootstrap. A goroutine of each peer answers, whatever its
//     streams and callers do.
//  3. It waits for the answers, at most patience. Of a silent rank of this host it reads the state in /proc; of one on
//     another host, a neighbour that answers reads it.
//  4. judge.Judge names the reason. If the operation still waits, the verdict goes to the records, to the log of the
//     first of the ranks that wait, and to the error if the operation fails.
//
// # Lifetime and threads
//
// A Watchdog is made before its communicator's engine, and Observe starts it. Close ends its cases; Wait waits for its
// goroutines, which end with the bootstrap. Its methods may be called from any goroutine.
package watchdog
