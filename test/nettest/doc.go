// Package nettest is the conformance suite of transport.Net: every network passes it.
//
// # Lifetime and threads
//
// Run closes everything that it opens. It may be called once per test.
package nettest
