package link

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/wire"

	"unsafe"
)

// Sizes of the ring, and the immediates.
const (
	slots      = 64
	creditEach = slots / 4
	recordSize = 64
	chunk      = 64 << 10 // a staging buffer of a slot

	immRecord = 0     // … slots-1: records of a slot
	immData   = slots // … 2·slots-1: writes that belong to a slot's record
	immCredit = 2 * slots
	immEcho   = immCredit + 1
)

type op uint64

const (
	opWrite op = iota + 1 // copy the slot's staging buffer to its place
	opAdd
	opStore
	opSignal
	opEcho
	opHold // a staging buffer of the Link is in use until this record is applied
	opBye
	numOps
)

// record is one operation, little endian: op, region, offset, value, length, writes.
type record struct {
	op                    op
	region, offset, value uint64
	length                uint64 // of opWrite
	writes                uint64 // how many writes with the slot's immediate there are in the whole
}

func (r *record) put(b []byte) {
	for i, v := range [6]uint64{uint64(r.op), r.region, r.offset, r.value, r.length, r.writes} {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
}

func parseRecord(b []byte) (record, error) {
	var v [6]uint64
	for i := range v {
		v[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	r := record{op(v[0]), v[1], v[2], v[3], v[4], v[5]}
	if r.op == 0 || r.op >= numOps || r.length > chunk {
		return r, fmt.Errorf("%w: link: record of operation %d, %d bytes", transport.ErrBounds, v[0], r.length)
	}
	return r, nil
}

// offer is what the two sides tell each other.
type offer struct {
	address []byte
	ring    []byte // of the Receiver: the key of the records; of the Link: that of a word, for puts without bytes
	stage   []byte // of the Receiver: the key of the staging buffers
}

const (
	kindOffer    = 0x40
	offerVersion = 1
	maxField     = 4096
)

func (o *offer) encode() []byte {
	var w wire.Writer
	w.Bytes(o.address)
	w.Bytes(o.ring)
	w.Bytes(o.stage)
	return w.Seal(kindOffer, offerVersion)
}

func parseOffer(b []byte) (o offer, err error) {
	r, err := wire.Open(b, kindOffer, offerVersion)
	if err != nil {
		return o, fmt.Errorf("link: %w", err)
	}
	o.address, o.ring, o.stage = r.Bytes(maxField), r.Bytes(maxField), r.Bytes(maxField)
	if err := r.Done(); err != nil {
		return o, fmt.Errorf("link: %w", err)
	}
	return o, nil
}

// buffer is registered memory of this package.
type buffer struct {
	b      []byte
	region transport.Region
}

func newBuffer(p transport.Port, size int) (*buffer, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("link: %d bytes of memory: %w", size, err)
	}
	r, err := p.Register(nil, pointer(b), int64(size))
	if err != nil {
		_ = unix.Munmap(b)
		return nil, err
	}
	return &buffer{b, r}, nil
}

func pointer(b []byte) device.Ptr { return device.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func (b *buffer) free() {
	if b != nil {
		_ = b.region.Close()
		_ = unix.Munmap(b.b)
	}
}
