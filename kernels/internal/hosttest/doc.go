// Package hosttest compiles the device headers and kernels for the CPU and runs them under ThreadSanitizer: the
// protocol code that runs on the GPU, thread for thread, with a race detector and without a GPU. It holds tests only.
//
// A C++20 compiler takes the place of CUDA's: emulate.hpp supplies the language (threadIdx, __syncthreads, warp votes,
// launches), sync.cuh its second backend over std::atomic_ref. ThreadSanitizer checks acquire/release reasoning; it
// does not model PTX scopes or fences.
//
// Bulk copies and their barriers are emulated as well (bulk.hpp): a copy is a thread for ThreadSanitizer, ordered with
// others by mbarriers and bulk groups only, and it does not see generic writes without a proxy fence. The test replaces
// the PTX of bulk.cuh, instruction by instruction, besides sizes and declarations of shared memory. litmus.hpp holds
// small kernels that must have a race, or none.
//
// Every program is also run broken. A mutation weakens all releases or all acquires to relaxed, or breaks the program's
// own logic (-DBUG): a protocol test that then still passes proves nothing, and fails here.
package hosttest
