package link

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/wire"
)

// Sizes of the ring, and the immediates.
const (
	slots       = 64
	creditEach  = slots / 4
	commandSize = 64
	chunk       = 64 << 10 // bytes of a slot's staging buffer

	immCommand = 0     // … slots-1: commands in a slot
	immData    = slots // … 2·slots-1: writes that precede a slot's command
	immCredit  = 2 * slots
	immEcho    = immCredit + 1
	immBye     = immEcho + 1 // the receiving end says who is to blame, and closes
	immRefused = immBye + 1  // and the next ones: a refusal, by reason

	spare = commandSize - 8 // 8 bytes of a slot that no command has
)

// refusals are the errors of a Link whose command was refused, by reason.
var refusals = [...]error{
	fmt.Errorf("%w: the peer refused an operation: its memory was closed, or the offset or its alignment is wrong",
		transport.ErrBounds),
	fmt.Errorf("%w: the peer could not write to its device", transport.ErrPeerGone),
}

type op uint64

const (
	opWrite op = iota + 1 // copy the slot's staging buffer to its place
	opAdd
	opStore
	opSignal
	opEcho
	opHold // nothing: until it is applied, the slot's staging buffer of the sender is in use
	opBye
	numOps
)

// command is one operation, as it is sent.
type command struct {
	op                    op
	region, offset, value uint64 // value of opBye: see blame
	length                uint64 // of opWrite
	writes                uint64 // writes with the slot's immediate so far, over all rounds of the ring
}

func parseCommand(b []byte) (command, error) {
	c := plain.Read[command](b)
	if c.op == 0 || c.op >= numOps || c.length > chunk {
		return c, fmt.Errorf("%w: link: command %d, %d bytes", transport.ErrBounds, c.op, c.length)
	}
	return c, nil
}

// offer is what one side tells the other.
type offer struct {
	address []byte // of the Peer; empty if the caller exchanges it
	ring    []byte // the key of the ring of commands; from Dial, of memory that puts without bytes name
	stage   []byte // the key of the staging buffers; empty from Dial
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
	r := wire.Open(b, kindOffer, offerVersion)
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
	r, err := p.Register(nil, device.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), int64(size))
	if err != nil {
		_ = unix.Munmap(b)
		return nil, err
	}
	return &buffer{b, r}, nil
}

func (b *buffer) free() {
	if b != nil {
		_ = b.region.Close()
		_ = unix.Munmap(b.b)
	}
}
