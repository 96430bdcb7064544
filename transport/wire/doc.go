// Package wire seals small records for the trip between processes: a kind, a version, a length and a checksum around a body of fixed-width
// little-endian fields. Nothing is allocated for a length before it is checked against what is there.
//
// Writers and Readers are used by one goroutine; they hold no resources.
package wire
