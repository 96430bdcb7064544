// Package plan is the execution plan: a collective written as one small program per thread block of every rank.
//
// It holds the types of the plan, its JSON form (Decode, Encode), the limits an executor keeps, the address arithmetic that turns chunks into
// bytes (Layout), a reference interpreter over byte buffers (package plan/interp) and the verifier that proves a plan right before it runs
// (Verify). docs/plan-format.md is the specification; where it and MSCCL++'s executor differ, it says so.
//
// The package is pure: no I/O, no GPU, no goroutines, no globals that change. A *Plan is plain data: it may be read by many goroutines at
// once as long as none writes it. Nothing here keeps a reference to a Plan after the call that received it returns, except a value whose
// documentation says so.
package plan
