// Package host is the device that every machine has: its memory is shared memory, a stream is a queue of Go functions,
// a kernel is a Go function and a "thread block" is a goroutine.
//
// # Memory
//
// Alloc makes a memfd, reserves its pages at once and seals its size, so that no later access can fault for lack of
// memory. All host devices of a process share one registry of mappings, because they share one address space. Export
// finds the mapping that holds a pointer. Import returns the original address for exports of this process, and maps an
// export of another process once, even if it is imported several times. A mapping is unmapped with the last Allocation
// that refers to it.
//
// Collectives refuse a buffer that extends beyond its allocation. The size of memory that Alloc did not make is
// unknown. There, a count that exceeds the memory is detected only if the excess is not mapped; otherwise it overwrites
// other data.
//
// Register adds memory that goccl did not allocate (C memory, a Go slice). It can be used within the process; other
// processes cannot map it.
//
// # Streams
//
// A stream runs its work in order, on a goroutine that it holds only while there is work; an idle stream costs a few
// hundred bytes. Goroutines are shared by all streams and end about 20 ms after the last work. WrapStream(0) is
// synchronous: work runs in the caller. The first error of a stream is sticky until ClearError: enqueued work is
// skipped, later work is refused, and Synchronize returns the error. A kernel that panics or accesses unmapped memory
// causes an error, not a crash.
//
// # Lifetime and threads
//
// Everything here may be used by several goroutines. The caller that makes an Allocation closes it after the work that
// uses it is done, as with cuMemFree; synchronize first. Device.Close sets the abort word that kernels see
// (Block.Abort), drops work that has not begun, and frees the device's allocations once the running kernels have
// returned. Event and stream waits take a context; a kernel's own waits must take a deadline or watch the abort word
// (package internal/wait does both).
package host
