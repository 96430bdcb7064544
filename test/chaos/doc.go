// Package chaos injects faults into jobs of real processes and judges what the other ranks do: the library behind
// `goccl chaos` and the scoreboard of docs/reliability.md.
//
// A trial is a job of a few ranks, each a process. All use one phase of goccl (joining, set-up, a collective, …). Some
// ranks, the victims, are struck by one fault at a time that a seed draws: they kill themselves, stop, abort, call
// something else, or lose their descriptors; or the surroundings are bad: the network, the file systems, a stranger who
// writes to sockets. The other ranks report their observations. The trial's outcome is one of
//
//	handled       every rank got the right result, or in time an error that names a victim; the survivors shrank and
//	              went on, with right results; nothing is left
//	wrong result  an operation succeeded with wrong data
//	hang          a rank did not come back
//	late          an error, or the survivors' communicator, came after the limit of limits.go
//	leak          a process, a socket, a file, a descriptor, a mapping, a goroutine, or memory of any kind is left
//	false alarm   an error, where the fault is none
//	wrong rank    an error that names no victim, or of another kind
//	failed        anything else: a survivor that died, a shrink that failed
//
// A run is a success if all its trials were handled, and if every cell that was asked for, a fault in a phase, has
// trials.
//
// # Lifetime and threads
//
// Run runs several trials at a time, as its caller wants; each ends with all its processes. Rank is the main
// function of such a process.
package chaos
