// Package cuda implements device.Device for NVIDIA GPUs: memory, streams, events, graphs, modules and launches. It
// needs the driver library only.
//
// Available reports whether a GPU can be used and, if not, why. Importing and compiling the package needs no GPU.
//
// # Lifetime
//
// Open returns a Device that holds a reference to the GPU's primary context, which cudart and PyTorch use too. Their
// pointers and streams are valid here, and ours are valid there. Opening a GPU twice gives two Devices with one
// context. Close of a Device closes everything made from it that is still open; first it waits, with a bound, for the
// streams it made. Closing anything twice is harmless. Memory that a kernel may still access must not be closed:
// synchronize first.
//
// # Threads
//
// All methods may be called from any goroutine, and from threads that have another CUDA context current; that context
// stays current. No method breaks a graph capture of another thread. Args is for one goroutine at a time.
//
// # Memory
//
// Alloc makes VMM memory (whole 2 MiB pages), which other processes map through a file descriptor. Every GPU that this
// process has open, and whose hardware can access the memory, may use it at its original address. Ordinary cudaMalloc
// memory is exported through legacy IPC. Multicast objects are never created.
package cuda
