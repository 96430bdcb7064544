// Package commtest makes the ranks of tests of the public API: in one process, on the host device, on GPUs or on the
// mock driver (New, OnKinds, OnMock), or a process per rank (Main, Start). Only tests import it.
//
// A test's cleanup closes what a function with a testing.TB returns.
package commtest
