// Package leak finds what processes leave behind: descriptors, mappings and goroutines of this process (Held), sockets,
// files and processes of those that it started (Watch). Tests and `goccl chaos` use it.
//
// # Lifetime and threads
//
// A Watch has a goroutine until End or Leftovers. Its methods are called by one goroutine.
package leak
