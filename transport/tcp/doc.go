// Package tcp performs one-sided operations between hosts: the "Ethernet" transport.
//
// # The flow
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
// Each direction has its own TCP connection, made by the sending side, so no connections need to be matched.
//
// # Trust
//
// A credential is a secret. It travels through the bootstrap, whose frames are encrypted. An eavesdropper on both
// learns the amount and the time of the traffic. Peers trust each other: an authenticated peer may write every region
// whose id it got.
//
// # Lifetime and threads
//
// Node and Link are safe for several goroutines. Node.Close ends its links and sessions and joins its goroutines.
// Frames may be applied to a Memory until Unregister has returned. A peer that vanishes without a bye is reported
// through Options.Lost and Link.Err.
package tcp
