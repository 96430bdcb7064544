// Package futex wraps Linux's shared futex: a 32-bit word in memory that several processes map, on which threads of any
// of them sleep until another thread wakes them.
//
// # Lifetime and threads
//
// The word must stay mapped while there is a waiter. The kernel identifies the word by its page, not by its address, so
// each process may map it elsewhere. Wait blocks the calling thread, and with it one of the Go scheduler's processors
// until the runtime detects that (tens of microseconds): it is the last resort of package wait, not a way to hand over
// work.
package futex
