// Package wait implements all waits on the host: for a counter in shared memory to reach a value, or for a condition
// over such memory to become true.
//
// # The steps of a wait
//
//  1. Poll: a few times, with the processor's pause instruction between polls; many times only if every busy rank has a
//     core.
//  2. Yield: poll, let other goroutines run, and now and then let other processes run, for a bounded time.
//  3. Sleep: increment the cell's waiter count, poll once more, sleep on its futex word, repeat step 3.
//
// Steps 2 and 3 also poll an abort word and a deadline. A sleeper polls them at least every Policy.Recheck.
//
// # The steps of a signal
//
//  1. Change the value by an atomic operation, sequentially consistent as all of package sync/atomic.
//  2. Load the waiter count. If it is 0 (the usual case), return, without a system call.
//  3. Increment the sequence, so that a waiter that polled before step 1 and does not sleep yet will not sleep.
//  4. Wake the sleepers.
//
// A waiter writes the count and then reads the value; a signaller writes the value and then reads the count. With
// sequential consistency one of the two sees the other's write, so no wake-up is lost.
//
// # Lifetime and threads
//
// A Cell lies in memory that all parties map, at a 64-byte boundary; it must stay mapped while there is a waiter. All
// methods may be called from any goroutine of any process. A process that dies while it sleeps leaves its waiter count
// behind: each signal then costs an additional system call, nothing else.
package wait
