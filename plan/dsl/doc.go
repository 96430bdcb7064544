// Package dsl is a language to write a collective as a program over all its ranks, and the compiler that turns it into
// an execution plan.
//
// A CollectiveProgram is an explicit value. Its methods record the operations of each thread block of each rank: on a
// Rank's own buffers, on channels to other ranks (MemoryChannel, PortChannel, SwitchChannel), and between thread blocks
// (Semaphore, Rank.Barrier). Compile pairs, schedules, fuses and replicates them into a *plan.Plan. Commands
// (CompileJSON) are the same language as data, for other languages. Errors are collected as *Error values with
// positions in the author's source, and Compile returns them together.
//
// The package is pure: no I/O, no goroutines, no state outside a program. Only one goroutine at a time may use a
// program; different programs are independent. Compile does not change its program, and the same program compiles to
// the same plan, byte for byte.
package dsl
