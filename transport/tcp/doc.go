// Package tcp performs one-sided operations between hosts over TCP, in two forms that share the listener and the
// handshake of a Node. A Link carries operations in order, encrypted: the "Ethernet" transport of primitives. A Net is
// the network of collectives between hosts.
//
// # The Net
//
//  1. A Port has a Node, and each of its Peers an endpoint of it. Of two Peers one dials all connections ("lanes"),
//     with the handshake below; both name how many packets of each lane they have applied.
//  2. Lane 0 carries small puts, acknowledgements and what keeps the Peers alive; the others share the large puts.
//     peer.go has the flow of a put.
//  3. Payloads are plain, like NCCL's, unless one side wants encryption.
//  4. A lane whose connection is lost is dialled again for Recovery, and goes on where the other side stopped. A host
//     that acknowledges nothing for Silence is gone (watch.go). A slow or stopped process is not.
//
// # The flow of a Link
//
//  1. A Node listens on one chosen address, never on a wildcard. It issues credentials: an endpoint id and a secret.
//  2. The peer, which got the credential through the bootstrap, dials. Both prove the secret by HMAC-SHA-256 over both
//     nonces; the secret itself is never sent. A connection that does not complete this within five seconds is
//     dropped, and earlier if many others wait.
//  3. Frames with a fixed 32-byte header (see frame.go) flow in one direction: write, add, store, signal, flush, bye.
//     Acknowledgements flow back. Each frame is encrypted and authenticated under keys of this connection and
//     direction, with its number (see stream.go).
//  4. The receiving Node checks the region, the bounds and the alignment of every frame and applies it. It answers an
//     invalid frame with a refusal and its reason, and the connection ends: nothing outside a registered region is
//     ever written. A frame that is not the peer's next one also ends the connection, and none of it is written.
//  5. TCP's order is the order of the operations, so a signal is applied after the writes before it.
//
// Each direction of a Link has its own TCP connection, made by the sending side, so no connections need to be matched.
//
// # Trust
//
// A credential, an address of a Peer and a key of a region are secrets. They travel through the bootstrap, whose frames
// are encrypted. An eavesdropper on both learns the amount and the time of the traffic; what a Net carries unencrypted
// it learns too. Peers trust each other: an authenticated peer may write every region whose id it got.
//
// # Lifetime and threads
//
// Everything is safe for several goroutines. Node.Close ends its links and sessions and joins its goroutines.
// Frames may be applied to a Memory until Unregister has returned. A peer that vanishes without a bye is reported
// through Options.Lost and Link.Err.
package tcp
