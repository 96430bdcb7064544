// Package check compares the calls of all ranks before they run, and the data that they have moved: what
// Config.Check and Config.CheckData of package goccl switch on.
//
// # Lifetime and threads
//
// A Checker lives as long as its communicator, which calls it under its lock: the calls of a rank are checked one
// after the other, in their order.
package check
