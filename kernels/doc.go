// Package kernels holds goccl's device code: CUDA C++ sources, the public device headers, and the images built from them.
//
// Images are built ahead of time, committed and embedded, so that nothing but the NVIDIA driver is needed at run time. A group is a folder of .cu files
// that is compiled as one translation unit; its images are cubins for compute capability 8.0, 9.0 and 10.0 and PTX for the rest. `go generate ./kernels`
// rebuilds what has changed (kernels/install-nvrtc.sh fetches the pinned compiler, which needs no GPU); `go run ./kernels/internal/build -check`
// proves that what is committed is what the sources give.
//
// Kernels of users are compiled at run time, by package kernels/jit, against the same headers, which Headers returns.
//
// Everything here is immutable and safe for concurrent use; byte slices that are returned must not be written to.
package kernels

//go:generate go run ./internal/build
