// Package host is the device that every machine has: memory is shared memory, a stream is a queue of Go functions, a kernel is a Go
// function and a "thread block" is a goroutine.
//
// # Memory
//
// Alloc makes a memfd, reserves its pages at once and seals its size, so that no later access can fault for want of memory. All host
// devices of a process share one registry of mappings, because they share one address space: Export finds the mapping that holds a pointer,
// Import gives back the original address of what this process exported itself, and maps what other processes exported once, however often
// it is imported. A mapping goes away with the last Allocation that refers to it.
//
// Collectives refuse a buffer that ends beyond its allocation. Of memory that Alloc did not make nobody knows the end: a count that leads out of it is
// found only where no memory is mapped; elsewhere it overwrites what lies there.
//
// Register takes memory that goccl did not allocate (C memory, a Go slice). It works within the process; other processes cannot map it.
//
// # Streams
//
// A stream runs its work in order, on a goroutine that it has only while there is work; an idle stream costs a few hundred bytes. Goroutines are
// shared by all streams and end some 20 ms after the last work.
// WrapStream(0) is synchronous: work runs in the caller. The first error of a stream sticks to it: work enqueued before is skipped, work
// enqueued later is refused, and Synchronize returns it, until ClearError. A kernel that panics or touches unmapped memory makes an error, not a
// crash.
//
// # Lifetime and threads
//
// Everything here may be used by several goroutines. Who makes an Allocation closes it after the work that uses it is done, as with
// cuMemFree; Synchronize first. Device.Close sets the abort word that kernels see (Block.Abort), drops work that has not begun, and frees the
// device's allocations once the kernels that still run have returned. Event and stream waits take a context; a kernel's own waits
// must take a deadline or watch the abort word (package internal/wait does both).
package host
