// Package perf measures collectives the way nccl-tests does, and refuses to report what cannot be true.
//
// # What is measured
//
// Every rank runs Measure with its own Rank: a device, a stream, the communicators of one or more libraries, and Peers, over which
// the ranks agree on iteration counts and gather their times. For each size, out of place and then in place, and for each library:
//
//  1. fresh pseudo-random inputs are written, outputs and a guard zone behind them are poisoned, one operation runs, and every byte is checked;
//  2. batches of operations are enqueued back to back behind untimed ones that bring the ranks together, and timed by events on a GPU and by the
//     host's clock elsewhere (batch.go), the libraries taking turns within the same cycle;
//  3. the check of step 1 is made again after a batch, so that an error that needs speed is seen.
//
// The time of an operation is the median over batches of the slowest rank's. Sizes, counts, algbw and busbw are defined as in nccl-tests.
//
// # Inputs
//
// Inputs are small numbers whose reduction is exact in the element type whatever the order, so a result is right or wrong without a
// tolerance; only avg of floating types may differ in the last places. Each rank repeats a random block with a prime number of elements,
// so no slice of a buffer stands in for another.
//
// # Threads
//
// A Rank is used by one goroutine. Reporter calls come from rank 0's goroutine.
package perf
