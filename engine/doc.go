// Package engine makes the engine that runs the requests of a communicator: shared memory or NVLink on one host, and a
// network between hosts, with one of these on each.
//
// # Lifetime and threads
//
// New is collective and keeps nothing. See package collective for the engine that it returns.
package engine
