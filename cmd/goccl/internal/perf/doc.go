// Package perf measures collectives the way nccl-tests does, and refuses results that are physically impossible.
//
// # Method
//
// Every rank runs Measure with its own Rank: a device, a stream, the communicators of one or more libraries, and Peers,
// over which the ranks agree on iteration counts and gather their times. For each size, out of place and then in place,
// and for each library:
//
//  1. fresh pseudo-random inputs are written, outputs and a guard zone behind them are poisoned, one operation runs,
//     and every byte is checked;
//  2. batches of operations are enqueued back to back behind untimed operations that synchronize the ranks. They are
//     timed by events on a GPU and by the host's clock elsewhere (batch.go). The libraries alternate within each cycle;
//  3. the check of step 1 is repeated after a batch, so that errors that occur only at full speed are found.
//
// The time of an operation is the median over batches of the slowest rank's time. Sizes, counts, algbw and busbw are
// defined as in nccl-tests.
//
// # Inputs
//
// Inputs are small numbers whose reduction is exact in the element type in any order, so results are compared without a
// tolerance; only avg of floating types may differ in the last places. Each rank repeats a random block with a prime
// number of elements, so that different slices of a buffer differ.
//
// # Threads
//
// A Rank is used by one goroutine. Reporter calls come from rank 0's goroutine.
package perf
