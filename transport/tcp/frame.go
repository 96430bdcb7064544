package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goccl/goccl/transport"
)

// A frame is a header, little endian, and for opWrite a payload (see stream for how they are sealed):
//
//	0   u8   operation
//	1   u8   status (acknowledgements)
//	2   u16  0
//	4   u32  payload length, at most maxPayload
//	8   u64  region
//	16  u64  offset
//	24  u64  value: delta, new value, sequence number of a flush and its acknowledgement, or, of
//	         a bye, 1 + the dead rank that it is about
const (
	headerSize = 32
	maxPayload = 64 << 10
)

type op uint8

const (
	opWrite op = iota + 1
	opAdd
	opStore
	opSignal
	opFlush
	opAck
	opBye
	opJoin // of a Peer's connection: see rejoin.go
	numOps
)

// Statuses of an acknowledgement.
const (
	statusOK uint8 = iota
	statusProtocol
	statusRegion
	statusBounds
	statusMemory
)

type header struct {
	op                    op
	status                uint8
	length                uint32
	region, offset, value uint64
}

func (h *header) put(b *[headerSize]byte) {
	b[0], b[1], b[2], b[3] = byte(h.op), h.status, 0, 0
	binary.LittleEndian.PutUint32(b[4:], h.length)
	binary.LittleEndian.PutUint64(b[8:], h.region)
	binary.LittleEndian.PutUint64(b[16:], h.offset)
	binary.LittleEndian.PutUint64(b[24:], h.value)
}

var errFrame = errors.New("tcp: malformed frame")

// parseHeader makes all checks that are possible without the region.
func parseHeader(b *[headerSize]byte) (header, error) {
	h := header{
		op: op(b[0]), status: b[1], length: binary.LittleEndian.Uint32(b[4:]), region: binary.LittleEndian.Uint64(b[8:]),
		offset: binary.LittleEndian.Uint64(b[16:]), value: binary.LittleEndian.Uint64(b[24:]),
	}
	switch {
	case h.op == 0 || h.op >= numOps:
		return h, fmt.Errorf("%w: operation %d", errFrame, b[0])
	case b[2] != 0 || b[3] != 0:
		return h, fmt.Errorf("%w: reserved bytes are set", errFrame)
	case h.length > maxPayload:
		return h, fmt.Errorf("%w: a payload of %d bytes, at most %d allowed", errFrame, h.length, maxPayload)
	case (h.op == opWrite) != (h.length != 0):
		return h, fmt.Errorf("%w: a payload of %d bytes with operation %d", errFrame, h.length, b[0])
	case h.op != opAck && h.status != 0:
		return h, fmt.Errorf("%w: a status with operation %d", errFrame, b[0])
	}
	return h, nil
}

// inBounds reports whether n bytes at off lie in a region of size bytes, without overflow.
func inBounds(off, n uint64, size int64) bool {
	return size >= 0 && n <= uint64(size) && off <= uint64(size)-n
}

// refusal returns the error for an acknowledgement's status.
func refusal(status uint8) error {
	switch status {
	case statusOK:
		return nil
	case statusRegion:
		return fmt.Errorf("%w: the peer has no such region; it was closed, or never registered for ethernet",
			transport.ErrBounds)
	case statusBounds:
		return fmt.Errorf("%w: the peer refused the offset or its alignment", transport.ErrBounds)
	case statusMemory:
		return errors.New("tcp: the peer could not write to its device")
	}
	return fmt.Errorf("%w: the peer did not understand", errFrame)
}
