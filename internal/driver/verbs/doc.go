// Package verbs calls libibverbs, the library of RDMA adapters (InfiniBand and RoCE). The library is opened at run time
// (dlopen) and never linked: Load's error names the missing part. api.h declares the part of its ABI that goccl uses,
// so the build needs no headers. What verbs.h defines as inline functions (post, poll, request a notification) goes
// through the table of operations in the device's context, as there.
//
// # Lifetime and threads
//
// Every function may be called from any goroutine, as libibverbs allows. Objects are plain handles: the caller that
// makes one closes it, after the objects that were made from it. No function keeps a Go pointer. The library stays
// loaded until the process ends.
package verbs
