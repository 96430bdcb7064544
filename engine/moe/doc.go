// Package moe moves the tokens of a mixture of experts: dispatch sends each token to the ranks of its experts, combine
// brings back the sums.
//
// # The three operations
//
//  1. Notify    every rank tells every other which of its tokens go there, for which experts. The result is a handle in
//     device memory: where each row goes and comes from. The host learns nothing unless it reads the handle.
//  2. Dispatch  one copy of a token goes to each rank that has one of its experts, whatever their number there.
//  3. Combine   each rank returns one row for each row that it got. The token's rank adds them.
//
// A handle serves any number of dispatches and combines. All ranks call the same operations in the same order with the
// same Shape; the numbers of tokens may differ.
//
// # Rows and experts
//
// In the layout Rows a rank gets one row for each token: by source rank, then in the order of the tokens. Its caller
// runs the experts, adds their weighted results, and gives one row back. In the layout Experts a rank gets each token
// once for each of its experts there: by expert, by source rank, in the order of the tokens. Combine then multiplies
// with the weights and adds the rows of a token before one row returns.
//
// The layout ZeroCopy is the layout Rows without copies at the receiver. A sender stores a row where the receiver's
// caller reads it, in the receiver's arena (HandleOffsets.Received), and a combine reads the results where the callers
// have put them (HandleOffsets.Results). So a caller's work on received rows must be enqueued before the next dispatch
// of the Buffer, in any layout, and must have ended before SetMask; a combine of another layout overwrites the results.
// A combine starts and ends together with the peers', which read this rank's results.
//
// # Order of the sums
//
// Both sums are of float32, in the order of the token's top-k list: first a rank adds its experts and rounds once to
// bfloat16, then the token's rank adds the ranks, in the order of their first expert in the list, and rounds once. So
// the result has the same bits in each run and on both devices.
//
// # Memory
//
// Every rank has an arena (layout.go). The row of token t of rank s has a fixed place in each rank's arena, so a sender
// needs no counts and no credit while it sends. An operation may write to a peer's arena once the peer has ended the
// operation before of the same kind: the peer's word `ended` has its number. Notify writes into two buffers in turn
// instead, because each rank gets a note of every other one before it ends.
//
// Ranks of few tokens send packets, which carry their own flags; others send plain rows and one flag for each piece of
// PieceTokens tokens (kernels/moe). The receiver knows from the handle which of the two a source uses.
//
// # Failure
//
// Every wait ends: with the abort word, with Config.OpTimeout if that is not 0, or when the peer that it waits for has
// left. The error names the rank, the operation and its number. After a failure every operation returns that failure.
//
// # Masks
//
// SetMask leaves out ranks between two operations, and takes them back. A masked rank is neither written to nor waited
// for: its counts are 0. A token whose expert is on such a rank goes to the expert's replica; without one, that part of
// the sum is missing. The mask is in memory that the operations read, so graphs remain valid; handles do not, and an
// operation with a handle of an earlier mask fails.
//
// All ranks that remain call SetMask together, with the same Mask. An operation that runs when a rank dies fails first,
// by the death or by Config.OpTimeout, and may have failed on some ranks only: after SetMask all go on with the same
// operation. From the first SetMask on a Buffer does not end with its communicator; it watches the remaining ranks.
// A process that has died cannot be taken back: ranks that join later get a communicator, and a Buffer, with all.
//
// # Lifetime and threads
//
// One goroutine at a time calls the operations of a Buffer; any goroutine may call Abort and Err. Close a Buffer after
// its work has ended or has been aborted.
package moe
