// Package aead encrypts the records of one direction of a connection: AES-128-GCM under keys derived by HKDF-SHA-256
// from a shared secret and the transcript of a handshake. The number of a record is its nonce, so Open rejects a record
// that was changed, repeated, omitted, moved, reflected or taken from another connection.
//
// # Lifetime and threads
//
// Only one goroutine at a time may use a Cipher. It holds no resources. After Open has failed the connection must end.
package aead
