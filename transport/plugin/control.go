package plugin

import (
	"encoding/binary"
	"fmt"

	"github.com/goccl/goccl/transport"
)

// control is a message of the control connection, little endian: kind, immediate, region, offset, size, number.
type control struct {
	kind, imm            uint32
	region, offset, size uint64
	number               uint64 // of the put; of an acknowledgement the number up to which all puts have arrived
	pieces               uint64 // of the put, with its first piece; else 0
}

const controlSize = 64

const (
	kindPiece = iota + 1
	kindAck
	kindBeat
	kindRefuse
	kindBye
	numKinds
)

func (c *control) put(b []byte) {
	binary.LittleEndian.PutUint32(b, c.kind)
	binary.LittleEndian.PutUint32(b[4:], c.imm)
	for i, v := range [5]uint64{c.region, c.offset, c.size, c.number, c.pieces} {
		binary.LittleEndian.PutUint64(b[8+8*i:], v)
	}
}

func parseControl(b []byte) (c control, err error) {
	c.kind, c.imm = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	for i, v := range [5]*uint64{&c.region, &c.offset, &c.size, &c.number, &c.pieces} {
		*v = binary.LittleEndian.Uint64(b[8+8*i:])
	}
	if c.kind == 0 || c.kind >= numKinds || c.imm >= transport.NumImmediates {
		return c, fmt.Errorf("plugin: a control message of kind %d, immediate %d", c.kind, c.imm)
	}
	return c, nil
}
