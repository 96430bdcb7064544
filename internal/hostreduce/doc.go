// Package hostreduce reduces buffers on the CPU. It is the arithmetic of the host device's collectives, and the
// reference for the results of every other implementation.
//
// # Arithmetic
//
//   - The sources are reduced in the given order, so the same inputs give the same bits on every machine. (A NaN stays
//     a NaN, but the choice among several NaNs is not specified.)
//   - Integers wrap, as in C with -fwrapv. Avg is the wrapped sum divided by the number of ranks, truncated toward
//     zero.
//   - float32 and float64 are computed in their own precision, without fused multiply-add. 16- and 8-bit floats are
//     computed in float32 and rounded once at the end, to nearest even. Avg is the sum times the reciprocal of the
//     number of ranks. Where the sum overflows, the sources are scaled by a power of two before they are added, so that
//     the average of finite elements is finite.
//   - PreMulSum multiplies each source by the scalar before it is added.
//   - Max and Min are IEEE 754's maxNum and minNum, as CUDA's fmax and fmin: of a NaN and a number the result is the
//     number, and of two NaNs it is a NaN. +0 is greater than -0. The result is one of the inputs, unrounded.
//   - 8-bit floats saturate when rounded, as CUDA's conversions with satfinite do: values beyond the largest finite
//     number, including infinity, become the largest finite number of the same sign. E4M3 has no infinity.
//   - A single source is copied bit by bit, unless the operator scales it (Avg, PreMulSum).
//
// # Vector kernels
//
// On amd64, kernels in assembly do what plain Go is too slow for. An all-reduce of 64 MiB by 8 ranks on two cores must
// read 4 GB/s of inputs on each core to reach 1 GB/s. Measured on one core of a 2.5 GHz Xeon, 8 sources of 2 KiB, in
// GB/s of input:
//
//	            float sum  float max  double sum  half sum  bfloat16 sum  int32 sum  int8 sum
//	assembly           97         26         142        40            25        127       107
//	plain Go          6.1        1.0          21       0.5           1.3         11       1.6
//
// 8-bit floats and extrema of 64-bit integers are plain Go, because no target needs more. 8-bit floats take 1.5 GB/s by
// look-ups of eight elements at a time (1.0 for sums and 0.34 for extrema without): an all-reduce of 16 MiB by 8
// processes takes half as long. 64-bit extrema take 13 GB/s.
//
// # Lifetime and threads
//
// Functions keep no references and use no goroutine; callers distribute large buffers over cores themselves. The
// destination may be exactly one of the sources; any other overlap is an error. No alignment is required.
package hostreduce
