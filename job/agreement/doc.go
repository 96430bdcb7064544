// Package agreement lets the remaining ranks of a job agree on which ranks remain, even if ranks die during the
// agreement.
//
// A call of the operation that needs it (Comm.Shrink) has a number and consists of steps. In each step every rank
// contributes the ranks that it excludes, and whether its part of the work since the last step succeeded. The outcome
// of a step is the set of contributions. It is the same on every rank that gets an outcome. A rank that gets none gets
// an error that names the rank to blame.
//
//  1. A rank's state is the contributions that it has received and the set of ranks that it ignores: excluded by some
//     rank, or dead. It accepts nothing more from those. Both only grow. It sends its state to all other ranks at the
//     start and after each change; this also forwards contributions.
//  2. The step is decided when every rank that is not ignored has contributed and has reported exactly the same state.
//     Then no live rank can receive another contribution: the missing ones belong to ranks that all ranks ignore.
//  3. A rank that has decided sends the outcome before it continues. The others adopt it, even if deaths have changed
//     their states since.
//
// A rank starts a call with the number after its last one. If it receives a higher number, it restarts with that
// number: a rank whose call failed may be ahead of others. A rank that gives up sends that (Withdraw) and ends the
// other ranks' calls of that number.
//
// A message also carries the number of the rank's latest completed joint call (Completed). A rank that is still in that
// call continues with it although the peer is already here (Calling). A rank that fails in a joint call, or will make
// none any more, says so (GiveUp).
//
// A step that is decided says who remains, not whether they may go on: ranks on both sides of a partition decide, each
// without the others. Quorum lets at most one of two parts without a common rank go on. A communicator is made once all
// its members have agreed in a step that each of them is ready, so what a part decides alone concerns only its ranks.
//
// The Bootstrap detects deaths. A rank that was given up by mistake, for example because it was stopped, finds itself
// excluded when it continues.
//
// A Member belongs to one communicator. Only one goroutine at a time may call its methods, except Calling, Completed,
// GiveUp, GivenUp and Close.
package agreement
