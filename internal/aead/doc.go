// Package aead seals the records of one direction of a connection: AES-128-GCM under keys derived by HKDF-SHA-256 from a shared secret and the
// transcript of a handshake. The number of a record is its nonce, so a record that was changed, repeated, left out, moved, reflected or taken from
// another connection does not open.
//
// # Lifetime and threads
//
// A Cipher is used by one goroutine at a time and holds no resources. After Open has failed the connection must end.
package aead
