// Package nvrtc compiles CUDA C++ at run time with NVIDIA's libnvrtc, which needs no GPU and no toolkit.
//
// The library is opened with dlopen on the first Open and stays loaded for the life of the process. A Library is
// immutable and may be used by several goroutines at once; every Compile owns its own program object and frees it
// before it returns. Without cgo every call returns ErrUnavailable.
package nvrtc
