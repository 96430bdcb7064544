// Package driver calls NVIDIA's driver library, libcuda. No other package opens it. The subpackages nvml and nvrtc open
// those libraries.
//
// The library is opened at run time (dlopen), never linked, so a program that imports this package builds and starts on
// a machine without a GPU, a driver or a toolkit. Load then returns the reason. api.h declares the names, numbers and
// layouts of the driver's ABI, so no toolkit is needed. GOCCL_CUDA_LIB and GOCCL_NVML_LIB name other libraries; tests
// use them to load a mock driver.
//
// # How a call works
//
//  1. A Go function packs integers into an args block on its stack and selects an operation.
//  2. One cgo call enters goccl_driver_call (dispatch.c): about 20 ns, without allocations or escapes.
//  3. The C code saves the calling thread's current context and sets ctx if it differs. For operations that are not
//     stream-ordered it exchanges the thread's capture mode for "relaxed", so that an allocation by one thread never
//     breaks a graph capture by another.
//  4. The operation runs: one driver call, or a few that belong together (a VMM allocation is five) with their
//     rollback.
//  5. The C code restores capture mode and context. The thread may be PyTorch's: its current context stays current.
//
// # Lifetime and threads
//
// Every function may be called from any goroutine; none keeps a Go pointer after it returns. Objects (contexts,
// streams, events, …) are plain handles: the caller that makes one destroys it. The library stays loaded until the
// process ends. Errors are *Error, except errors of Load.
package driver
