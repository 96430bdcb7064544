// Package interp runs a plan over byte buffers, slowly and adversarially: the meaning of every op, in the plainest code, under any
// interleaving that a seed picks.
//
// It is the yardstick for the executors and for the verifier, not an executor: it keeps all ranks in one place, single-threaded, and takes
// one small step at a time. A thread block is a few lanes that run freely between the points where all threads meet; lane e mod lanes serves
// entry e of a signal or wait, and data is dealt out to lanes unit by unit, so a missing nop shows. Port channels transfer when the
// scheduler says so. Each rank starts its next launch as soon as it is done with the last, while others may lag, and its caller scribbles
// over the buffers in between, so a missing handshake shows. A run ends in success, a failed check or a deadlock; it cannot hang.
//
// A run is a pure function of the plan and the Config. Nothing is shared between runs.
package interp
