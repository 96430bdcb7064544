// Package netfake is a network in memory whose behaviour follows from a seed: a transport.Net for tests of what runs on
// one. It is as unfriendly as the interface allows.
//
//   - Puts arrive in any order. Of each put, pieces become visible before the immediate counts, also pieces of garbage.
//   - The source is read late, and again when a put is repeated as after a reconnection: a user that changes it before
//     done sends wrong bytes.
//   - Hosts are slow, connections are lost, hosts die.
//
// # Time
//
// There is no clock. Every step of a put has a virtual time, drawn from the seed and the connection's place in the
// fabric. One goroutine takes the earliest step that is known, so thousands of schedules run in seconds. The same seed
// gives the same order as far as the users' goroutines ask in the same order.
//
// # Lifetime and threads
//
// Everything may be used by several goroutines. Fabric.Close ends all Peers and the goroutine.
package netfake
