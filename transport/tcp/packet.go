package tcp

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/transport"
)

// A packet is what the connections of a Peer carry: a header, little endian, and for packetPut a payload. Without
// encryption both are sent as they are; with it each is sealed by itself.
//
//	0   u8   kind
//	1   u8   why a packet was refused; of a put 1 if acknowledgements are wanted when all of its packets have arrived
//	2   u16  immediate
//	4   u32  payload length, at most maxPiece
//	8   u64  region
//	16  u64  offset
//	24  u64  number of the put at its sender; of an acknowledgement the number of packets applied
//	32  u32  number of packets of the put
//	36  u32  0
const (
	packetSize = 40
	// maxPiece is the longest payload: the part of a put that one packet carries.
	maxPiece = 256 << 10
)

type packetKind uint8

const (
	packetPut packetKind = iota + 1
	packetAck
	packetBeat
	packetUrge // an acknowledgement is wanted at once
	packetBye
	packetRefuse
	packetJoin // the first packet of a connection, in both directions: see rejoin.go
	numPackets
)

var errFrame = errors.New("tcp: malformed message")

// Why a packet was refused.
const (
	statusOK uint8 = iota
	statusProtocol
	statusRegion
	statusBounds
)

// packetError is the error of a packet that is refused with a status.
type packetError struct {
	status uint8
	error
}

func (e *packetError) Unwrap() error { return e.error }

// refusal returns the error for a refusal's status.
func refusal(status uint8) error {
	switch status {
	case statusRegion:
		return fmt.Errorf("%w: the peer has no such region; it was closed, or never registered for this network",
			transport.ErrBounds)
	case statusBounds:
		return fmt.Errorf("%w: the peer refused the offset or the size", transport.ErrBounds)
	}
	return fmt.Errorf("%w: the peer did not understand", errFrame)
}

// inBounds reports whether n bytes at off lie in a region of size bytes, without overflow.
func inBounds(off, n uint64, size int64) bool {
	return size >= 0 && n <= uint64(size) && off <= uint64(size)-n
}

// packet is a header as it is sent.
type packet struct {
	kind           packetKind
	status         uint8
	imm            uint16
	length         uint32
	region, offset uint64
	value          uint64
	parts          uint32
	reserved       uint32
}

var _ = [1]struct{}{}[unsafe.Sizeof(packet{})-packetSize]

// parsePacket makes all checks that are possible without the region.
func parsePacket(b []byte) (packet, error) {
	p := plain.Read[packet](b)
	switch {
	case p.kind == 0 || p.kind >= numPackets:
		return p, fmt.Errorf("%w: packet of kind %d", errFrame, b[0])
	case p.reserved != 0:
		return p, fmt.Errorf("%w: reserved bytes are set", errFrame)
	case p.imm >= transport.NumImmediates:
		return p, fmt.Errorf("%w: immediate %d", errFrame, p.imm)
	case p.length > maxPiece:
		return p, fmt.Errorf("%w: a payload of %d bytes, at most %d allowed", errFrame, p.length, maxPiece)
	case p.kind != packetPut && p.length != 0, (p.kind == packetPut) != (p.parts != 0):
		return p, fmt.Errorf("%w: %d bytes, %d parts with kind %d", errFrame, p.length, p.parts, b[0])
	}
	return p, nil
}
