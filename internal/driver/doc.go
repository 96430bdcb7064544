// Package driver is the one door to NVIDIA's driver library, libcuda, and to NVML.
//
// The library is opened at run time (dlopen), never linked, so a program that imports this package builds and starts on a machine without a
// GPU, a driver or a toolkit; Load then says why there is none. The declarations are our own (api.h): names, numbers and layouts are those of
// the driver's ABI. GOCCL_CUDA_LIB and GOCCL_NVML_LIB name other libraries, which is how tests put a mock driver under everything above.
//
// # How a call travels
//
//  1. A Go function packs integers into an Args block on its stack and names an operation.
//  2. One crossing of cgo enters goccl_driver_call (dispatch.c): about 20 ns, nothing allocated, nothing escapes.
//  3. There the calling thread's current context is saved and set if it differs; for operations that are not stream-ordered the thread's
//     capture mode is exchanged for "relaxed", so that an allocation by one thread never breaks a graph capture by another.
//  4. The operation runs: one driver call, or a few that belong together (a VMM allocation is five) with their rollback.
//  5. Capture mode and context are put back. The thread may be PyTorch's: what it had current stays current.
//
// # Lifetime and threads
//
// Every function may be called from any goroutine; none keeps a Go pointer after it returns. Objects (contexts, streams, events, …) are plain
// handles: whoever makes one destroys it. The library stays loaded until the process ends. Errors are *Error, except those of Load.
package driver
