// Package tcp is the network of TCP: one-sided puts between hosts, authenticated and, if one side wants it, encrypted.
//
// # The flow
//
//  1. A Port listens on one chosen address, never on a wildcard. It issues credentials: an endpoint id and a secret.
//     Each Peer has one, in its Address.
//  2. Of two Peers one dials all connections ("lanes"). Both sides prove the secret by HMAC-SHA-256 over both nonces;
//     the secret itself is never sent. A connection that does not complete this within five seconds is dropped, and
//     earlier if many others wait. Then both sides name how many packets of the lane they have applied.
//  3. Lane 0 carries small puts, acknowledgements and what keeps the Peers alive; the others share the large puts.
//     peer.go has the flow of a put.
//  4. The receiver checks the region and the bounds of every packet. It answers an invalid one with a refusal and its
//     reason, and the Peers end: nothing outside a registered region is ever written.
//  5. Payloads are plain, like NCCL's, unless one side wants encryption. Then each packet is encrypted and
//     authenticated under keys of its connection and direction, with its number: a packet that is changed, repeated,
//     left out or out of order ends the connection, and none of it is applied.
//  6. A lost connection is dialled again for at most Recovery, and its next packet is the first that the other side
//     lacks. A host that acknowledges nothing for Silence is gone (watch.go). A slow or stopped process is not.
//
// An exchange (Port.Exchange) is one encrypted request and its reply, with the same credentials and handshake: by it
// the two halves of a connection exchange their addresses where no bootstrap does that.
//
// # Trust
//
// A credential, an address of a Peer and a key of a region are secrets. They travel through the bootstrap, whose frames
// are encrypted. An eavesdropper on both learns the amount and the time of the traffic, and reads unencrypted payloads.
// Peers trust each other: an authenticated peer may write every region whose id it got.
//
// # Lifetime and threads
//
// Everything is safe for several goroutines. Port.Close ends its Peers and exchanges and joins its goroutines.
package tcp
