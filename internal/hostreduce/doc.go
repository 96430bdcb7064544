// Package hostreduce reduces buffers on the CPU: the arithmetic of the host device's collectives, and the reference that every other
// implementation's results are compared with.
//
// # Arithmetic
//
//   - The sources are folded in the order given, so the result is the same bits wherever and whenever it is computed from the same inputs.
//     (A NaN stays a NaN, but which of several NaNs is not promised.)
//   - Integers wrap, as in C with -fwrapv. Avg is the wrapped sum divided by the number of ranks, truncated toward zero.
//   - float32 and float64 are computed in their own precision, without fused multiply-add. 16- and 8-bit floats are computed in float32 and
//     rounded once at the end, to nearest even. Avg is the sum times the reciprocal of the number of ranks.
//   - PreMulSum multiplies each source by the scalar before it is added.
//   - Max and Min are IEEE 754's maxNum and minNum, as CUDA's fmax and fmin: a NaN loses against a number, and two NaNs make a NaN. +0 is
//     greater than -0. Their result is one of the inputs, unrounded.
//   - 8-bit floats saturate when rounded, as CUDA's conversions with satfinite do: what is beyond the largest finite number, infinity
//     included, becomes the largest finite number of its sign. E4M3 has no infinity.
//   - A single source is copied bit by bit, unless the operator scales it (Avg, PreMulSum).
//
// # Lifetime and threads
//
// Functions keep nothing and use no goroutine; callers split large buffers over cores themselves. The destination may be one of the sources
// exactly; any other overlap is refused. Nothing need be aligned.
package hostreduce
