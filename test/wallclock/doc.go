// Package wallclock moves the wall clock of this process only: time.Now and times derived from it. Monotonic time goes
// on. It is for tests of what happens when an administrator or NTP sets the clock.
//
// Go reads both clocks by one function of the kernel's shared object. Jump puts a function before it that adds an
// offset to CLOCK_REALTIME. C code, and calls of the kernel, see the true time.
//
// # Lifetime and threads
//
// Any goroutine may call Jump. The offset remains until the process ends.
package wallclock
