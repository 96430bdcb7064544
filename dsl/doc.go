// Package dsl is a language to write a collective as a program over all its ranks, and the compiler that turns it into an execution plan.
//
// A CollectiveProgram is an explicit value. Its methods record what each thread block of each rank does: operations on a Rank's own buffers,
// on channels to other ranks (MemoryChannel, PortChannel, SwitchChannel), and between thread blocks (Semaphore, Rank.Barrier). Compile pairs,
// schedules, fuses and replicates them into a *plan.Plan; Commands (CompileJSON) is the same language as data, for other languages. Mistakes
// are collected as *Error values at the line of the program's author and returned together by Compile.
//
// The package is pure: no I/O, no goroutines, no state outside a program. A program is used by one goroutine at a time; different programs
// are independent. Compile leaves its program unchanged, and the same program compiles to the same plan, byte for byte.
package dsl
