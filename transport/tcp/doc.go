// Package tcp carries one-sided operations between hosts: the "Ethernet" transport.
//
// # The flow
//
//  1. A Node listens on one chosen address, never on a wildcard. It hands out credentials: an endpoint id and a secret.
//  2. The peer, which got the credential through the bootstrap, dials. Both prove the secret by HMAC-SHA-256 over both nonces; the
//     secret itself never travels. A connection that does not get through this within five seconds is dropped, and earlier when a crowd of others waits.
//  3. Frames of a fixed 32-byte header (see frame.go) flow one way: write, add, store, signal, flush, bye. Acknowledgements flow back. Each frame is
//     encrypted and authenticated under keys of this connection and direction, and its number (see stream.go).
//  4. The receiving Node checks the region, the bounds and the alignment of every frame and applies it. A frame that fails is answered
//     with a refusal that names the reason, and the connection ends: nothing outside a registered region is ever written. A frame that is not
//     the peer's next one ends the connection too, and nothing of it is written anywhere.
//  5. TCP's order is the order of the operations, so a signal is applied after the writes before it.
//
// Each direction has its own TCP connection, made by the side that sends; nothing has to be matched.
//
// # Trust
//
// A credential is a secret. It travels through the bootstrap, whose frames are encrypted. Whoever hears all of both learns how much is sent and when. Peers
// trust each other: one that is authenticated may write every region whose id it was told.
//
// # Lifetime and threads
//
// Node and Link are safe for several goroutines. Node.Close ends its links and sessions and joins its goroutines. A Memory may be applied to
// until Unregister has returned. A peer that vanishes without a bye is reported through Options.Lost and Link.Err.
package tcp
