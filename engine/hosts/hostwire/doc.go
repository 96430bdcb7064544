// Package hostwire moves bytes between hosts for the host device: it implements wire.Wire over a transport.Net.
//
// # Flow of a phase
//
//  1. A message is cut into pieces of the receiver's slot size. The sender copies a piece behind a header into its
//     outbox and puts both into a slot of the receiver's inbox for it. Piece k of a pair's traffic goes to slot k
//     modulo slots.
//  2. The receiver copies or reduces the piece straight from the slot and returns the slot: one credit for a number of
//     slots.
//  3. A phase polls all of its messages in turn, so that none waits for another. If none can go on, it spins, yields
//     and then sleeps until something arrives.
//
// # Memory order and reuse
//
// Each slot has its own counter of arrivals (immediate), and is used again only after its credit, so puts may arrive in
// any order. Credits count: the receiver frees slots in the order of pieces, so that n credits mean the first n.
//
// # Memory
//
// A connected peer takes two times slots times the slot size: inbox and outbox. The slots are smaller when a rank has
// many peers (slotFor): at most 64 MiB for the peers that are known at set-up, and at least 16 KiB a slot.
//
// # Lifetime and threads
//
// Phases run one at a time, on the goroutines of their streams. Any goroutine may call Abort. The arrival callbacks of
// the network ring the bell, which the running phase waits for.
package hostwire
