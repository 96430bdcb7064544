// Package nvml asks NVIDIA's management library what GPUs the machine has and how they are wired. It sees all GPUs of
// the machine (or container), whatever CUDA_VISIBLE_DEVICES says, and makes no CUDA context.
//
// The library is opened with dlopen at the first use; GOCCL_NVML_LIB names another one. Read takes everything in one
// go: the library is initialised and shut down inside it, so nothing stays. Read may be called from any goroutine.
package nvml
