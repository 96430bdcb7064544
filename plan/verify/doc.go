// Package verify proves a plan before it runs. Check executes the plan symbolically, for every shape of message that
// the plan takes and for launches that follow each other: each result must hold exactly the contributions that the
// collective asks for, no two accesses may race, no rank may wait for ever, and every access stays within its buffer.
//
//   - Values: which ranks' inputs a cell holds, and by which operator they were reduced (values.go, memory.go).
//   - Order: vector clocks of thread blocks; an access without order to another of the same cell is a race (clock.go,
//     race.go).
//   - Progress: counters of semaphores and packets; a wait that nothing can end is a deadlock (counters.go, exec.go).
//   - Repetition: ranks and chunks that package symmetry finds equal are proven once (quotient.go, turns.go).
//
// docs/verifier.md has the model, the theorem and its limits.
//
// # Lifetime and threads
//
// Check does no I/O and starts no goroutine. It keeps nothing of the plan, which it only reads.
package verify
