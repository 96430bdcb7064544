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
// On amd64, kernels in assembly do the sums that plain Go is too slow for: Sum and Avg, and PreMulSum of floats.
// An all-reduce of 64 MiB by 8 ranks on two cores must read 4 GB/s of inputs on each core to reach 1 GB/s. For 8
// sources of 16 KiB on one core of a 2.1 GHz Xeon (family 6, model 207), shared with other work, BenchmarkKernels
// prints, in GB/s of input, at best in several runs:
//
//	                  float  double  half  bfloat16  int8  int32  int64
//	assembly, sum        91      84    45        22    83     90     89
//	plain Go, sum        10      19   0.8       2.3   1.3    8.6     13
//	plain Go, max       3.2     5.9   1.1       1.1   1.4    8.3     15
//	plain Go, prod       10      14   0.8       2.0   1.8    7.7     11
//
// No target needs more for extrema and products. 8-bit floats are plain Go and look up their values: 1.5 GB/s for sums,
// 1.1 for extrema.
//
// # Lifetime and threads
//
// Functions keep no references and use no goroutine; callers distribute large buffers over cores themselves. The
// destination may be exactly one of the sources; any other overlap is an error. No alignment is required.
package hostreduce
