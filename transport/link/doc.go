// Package link is a transport.Link over any transport.Net: operations that happen in order, over puts that do not.
//
// # The flow
//
//  1. A Link has a Peer whose other half belongs to a Receiver in the peer's process. They exchange addresses and keys
//     through the caller's own channel (Dial's exchange, Receiver.Accept).
//  2. Write puts the bytes directly from the source to the destination. If the network cannot reach one of them, the
//     bytes go in chunks through staging buffers of both sides.
//  3. Every other operation is a record, put into a slot of a ring at the Receiver. Record k uses slot k modulo the
//     ring's size, and each slot has two immediates: one counts its records, one counts the writes that belong to them,
//     those since the record before. So the Receiver knows which record has arrived and whether all writes before it
//     have, in whatever order they come.
//  4. The Receiver applies the records in order, each when its writes have arrived, and tells the Link by puts without
//     bytes: a credit after every quarter of the ring, an echo for a flush or a mark.
//
// # Lifetime and threads
//
// Link and Receiver may be used by several goroutines. A Link blocks only when the ring is full, until the Receiver has
// applied records, the Peer fails, or the Link is closed. Records are applied on a goroutine of the network.
package link
