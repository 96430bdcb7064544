// Package wait is how anything on the host waits for anything else: for a counter in shared memory to reach a value, or for a condition
// over such memory to become true.
//
// # The way of a wait
//
//  1. poll          a few times, with the processor's pause instruction between polls; many times only when every busy rank has a core
//  2. yield         poll, let other goroutines run, and now and then let other processes run, for a bounded time
//  3. sleep         count oneself among the cell's waiters, poll once more, sleep on its futex word, start again at 3
//
// Steps 2 and 3 also look at an abort word and at a deadline. A sleeper looks at them at least every Policy.Recheck.
//
// # The way of a signal
//
//  1. change the value     an atomic operation, sequentially consistent as all of package sync/atomic
//  2. load the waiters     none (the usual case): done, without a system call
//  3. bump the sequence    so that a sleeper which polled before 1 and has not slept yet will not
//  4. wake
//
// A waiter writes the count and then reads the value, a signaller writes the value and then reads the count: with sequential consistency
// one of the two sees the other, so no wake-up is lost.
//
// # Lifetime and threads
//
// A Cell lies in memory that all parties map, at a 64-byte boundary; it must stay mapped while anybody waits on it. All methods may be
// called from any goroutine of any process. A process that dies asleep leaves its count behind: signals then cost a system call more,
// nothing else.
package wait
