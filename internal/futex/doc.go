// Package futex is Linux's futex in its shared form: a 32-bit word in memory that several processes map, on which threads of any of them
// sleep until another wakes them.
//
// # Lifetime and threads
//
// The word must stay mapped while anybody waits on it. The kernel knows the word by the page it lies on, not by its address, so each
// process may map it elsewhere. Wait blocks the calling thread, and with it one of the Go scheduler's processors until the runtime
// notices (tens of microseconds): it is the last resort of package wait, not a way to hand over work.
package futex
