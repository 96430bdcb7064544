// Package links finds out what the links of this host really do: for each pair of its GPUs and for each network
// adapter, data that is checked both ways, a latency and a bandwidth.
//
//	Measure       one pair, in this process
//	Serve         what the child process runs: pair after pair, a line of JSON for each
//	Run           starts the child, with a limit for each pair. A pair that hangs costs the child: Run ends it and starts
//	              another one behind that pair
//
//	MeasureNICs   the adapters of networks, in a loop from this host to itself
//
// A kernel that loads from memory which never answers cannot be ended from within its process. That is why there is a
// child.
package links
