// Package agreement lets the ranks that are left of a job agree on who is left, although ranks may die while they do.
//
// A call of the operation that needs it (Comm.Shrink) has a number and goes in steps. In each step every rank contributes: whom it does without, and
// whether its part of the work since the step before came out well. The outcome of a step is the contributions of all who gave one, and it is the same
// on every rank that gets one. A rank that does not get one has an error that says because of whom.
//
//  1. A rank's state is the contributions that it knows and the ranks that it has done with: excluded by somebody, or dead. From those it takes nothing
//     more. Both only grow. It sends its state to all others when it begins and whenever it has changed, which is also how contributions are passed on.
//  2. The step is decided when all with whom the rank has not done have contributed and have reported the very same state. Then nobody alive can
//     learn of another contribution: those that are missing are of ranks with which everybody has done.
//  3. Who has decided says so before it goes on. Others take its outcome, also when deaths have changed their states since.
//
// A rank begins a call with the number behind its last one. One that meets a higher number begins anew with that: a rank whose call failed may be
// ahead of others. A rank that gives up says so (Withdraw), and ends the others' calls of that number.
//
// Deaths are the Bootstrap's verdicts. A rank that was given up by mistake, because it was stopped for instance, finds itself excluded when it goes
// on.
//
// A Member belongs to one communicator. Its methods are called by one goroutine at a time, but for Calling and Close.
package agreement
