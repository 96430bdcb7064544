// Package plan defines execution plans: a plan is a collective written as one small program per thread block of every
// rank.
//
// The package contains the types of the plan, its JSON form (Decode, Encode), the limits of executors (Limits), the
// address arithmetic that turns chunks into bytes (Layout), and the table of ops (OpKinds), which says what an op does.
// Package plan/verify proves a plan correct before it runs, and test/interp is a reference interpreter over byte
// buffers. docs/plan-format.md is the specification, and states where it differs from MSCCL++'s executor.
//
// The package is pure: no I/O, no GPU, no goroutines, no mutable globals. A *Plan is plain data: many goroutines may
// read it at once while none writes it. No function keeps a reference to a Plan after it returns, except in a value
// whose documentation states so.
package plan
