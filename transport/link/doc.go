// Package link is a transport.Link over any transport.Net: operations that happen in order, over puts that do not.
//
// # The flow
//
//  1. A Link sends over a Peer whose other half belongs to a Receiver in the peer's process. The two sides exchange
//     addresses and keys through the caller's channel: Dial and Receiver.Accept make one direction, Receiver.Prepare
//     and End.Open both directions over one Peer.
//  2. Write puts the bytes directly from the source to the destination. If the network cannot reach one of them, the
//     bytes go in chunks through staging buffers of both sides.
//  3. Every other operation is a command, put into a slot of a ring at the Receiver. Command k uses slot k modulo the
//     ring's size. Each slot has two immediates: one counts its commands, one counts the writes since the command
//     before. So the Receiver knows which command has arrived and whether all writes before it have, in whatever order
//     they come.
//  4. The Receiver applies the commands in order, each when its writes have arrived. It answers by puts without bytes:
//     a credit after every quarter of the ring, an echo for a flush or a mark, a refusal for a command that it must not
//     apply. A refusal ends the connection.
//
// # Lifetime and threads
//
// Link and Receiver may be used by several goroutines. A Link blocks only when the ring is full, until the Receiver has
// applied commands, the Peer fails, the Link is closed, or Options.Timeout ends. Commands are applied on a goroutine of
// the network.
package link
