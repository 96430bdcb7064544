// Package kernels holds goccl's device code: CUDA C++ sources, the public device headers, and the images built from them.
//
// Images are built ahead of time, committed and embedded, so that only the NVIDIA driver is needed at run time. A group
// is a folder of .cu files that is compiled as one translation unit. Its images are cubins for compute capability 8.0,
// 9.0 and 10.0, and PTX for the rest. `go generate ./kernels` rebuilds the groups that have changed
// (kernels/install-nvrtc.sh fetches the pinned compiler, which needs no GPU). `go run ./kernels/internal/build -check`
// verifies that the committed images match the sources.
//
// Package kernels/jit compiles users' kernels at run time against the same headers, which Headers returns.
//
// Everything here is immutable and safe for concurrent use. Callers must not write to returned byte slices.
package kernels

//go:generate go run ./internal/build
