// Package wire encodes small records for transfer between processes: a kind, a version, a length and a checksum around
// a body of fixed-width little-endian fields. A length is checked against the available bytes before memory is
// allocated for it.
//
// Only one goroutine at a time may use a Writer or Reader; they hold no resources.
package wire
