// Package fused runs an all-reduce together with what follows it in a decoder layer: the residual sum, RMSNorm and
// quantisation.
//
// # Arithmetic
//
// A request is rows of hidden elements. For each row:
//
//  1. sum        y = the inputs of all ranks, added in rank order in float, rounded once to the type
//  2. residual   z = y + residual, added in float, rounded to the type
//  3. norm       n = z · (1/√(mean(z²) + ε)) · weight, in float from left to right, rounded to the type
//  4. quantise   q = n · (1/scale), rounded to nearest even; the scale is given, or the row's max(|n|) / max(q)
//
// Every step rounds as a separate kernel would, so the results equal an all-reduce followed by separate kernels with
// this arithmetic, bit for bit, on all ranks. The squares are added in one order, which depends on hidden alone
// (norm.go and kernels/fused/row.cuh have the same).
//
// # Ways to run it
//
//	one_shot   one kernel: every rank sends its rows to all others as packets without flags (kernels/fused)
//	two_shot   one kernel: rows to their owners, sums back; with a divided residual the owner normalises its rows and
//	           sends the results
//	apart      the communicator's all-reduce, then a kernel, or a Go function on the host device, for steps 2 to 4
//
// # Lifetime and threads
//
// A Workspace belongs to one communicator, whose lock guards its calls.
package fused
