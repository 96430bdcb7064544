// Package cuda is the device.Device of NVIDIA GPUs: memory, streams, events, graphs, modules and launches, by the driver library alone.
//
// Available says whether there is a GPU to use and, if not, why; nothing else in the package needs a GPU to compile or to be imported.
//
// # Lifetime
//
// Open gives a Device that holds a reference on the GPU's primary context, the one that cudart and PyTorch use, so pointers and streams of
// theirs are valid here and ours there. Opening a GPU twice gives two Devices over one context. Close of a Device ends everything made from
// it that is still open; it first waits, bounded, for the streams it made. Closing anything twice is harmless. Memory that a kernel may still
// touch must not be closed: synchronise first.
//
// # Threads
//
// All methods may be called from any goroutine and from threads that have another CUDA context current; that context is left as it was. No
// method breaks a graph capture that another thread has under way. Args is for one goroutine at a time.
//
// # Memory
//
// Alloc makes VMM memory (whole 2 MiB pages), which other processes map through a file descriptor. Every GPU that this process has opened and
// that can reach the memory may use it at its original address. Ordinary cudaMalloc memory is exported through legacy IPC. Multicast objects
// are never created.
package cuda
