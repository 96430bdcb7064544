// Package fabric describes what connects the ranks of a job: GPUs, switches and NICs, and the links between them with
// their rates and latencies.
//
// A Graph is plain data. Parse reads it from JSON, in which the hosts of a cluster are written once; the package ships
// examples. Route says which links a transfer between two GPUs takes: the simulator charges these, and package
// plan/synth searches plans that use them evenly. The package is pure: no I/O, no goroutines. Several goroutines may
// read a Graph at once.
package fabric
