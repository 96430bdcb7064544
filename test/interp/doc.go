// Package interp runs a plan over byte buffers, slowly and adversarially. It defines the meaning of every op with
// simple code, under any interleaving that a seed picks.
//
// It is the reference for the executors and the verifier, not an executor: it simulates all ranks in one goroutine, one
// small step at a time. A thread block is a few threads that run freely between the points where all of them
// synchronize. Of n threads, thread e mod n serves entry e of a signal or wait, and data is distributed over threads
// unit by unit, so a missing nop causes errors. The scheduler decides when port channels transfer. Each rank starts its
// next launch as soon as it has finished the last, while other ranks may lag, and its caller overwrites the buffers in
// between, so a missing handshake causes errors. A run ends in success, a failed check or a deadlock; it cannot hang.
//
// A run is a pure function of the plan and the Config. Runs share no state.
package interp
