// Package ncclabi loads any library with NCCL's C ABI and calls it, so that goccl can be measured beside it in one
// process, on the same buffers and streams. Nothing here is used by goccl's own collectives.
//
// The library is opened RTLD_LOCAL: its symbols stay its own, also when the process holds another libnccl (goccl's, or
// PyTorch's). Libraries that call their own exported functions through the global scope need WithDeepBind.
//
// # Threads
//
// Every call may come from any goroutine; the CUDA context that a Comm was made with is current during its calls and
// the thread's own is put back. A group belongs to one thread: use Library.Group, which keeps the goroutine on its
// thread. One Comm is for one goroutine at a time, except AsyncError. A Library is never unloaded.
package ncclabi
