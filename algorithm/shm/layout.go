package shm

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
)

// A window is laid out as
//
//	0                door cell         its owner sleeps here; peers wake it
//	64               phase cell        the owner's phase counter
//	128 + 64·parity  descriptor        what the owner published in the phase of this parity
//	256              abort word        for the owner's own waits
//	320              fate              why the owner takes part no more
//	512 + 128·p      mailbox cells     sent, taken: the owner's traffic to rank p
//	slots            2 × slotBytes     the data of a phase, by parity
//	rings            n × ringBytes     the owner's traffic to rank p
//
// The owner writes everything but the taken cells, which their receivers write, and the futex fields of the cells.
const (
	offDoor    = 0
	offPhase   = 64
	offDesc    = 128
	offAbort   = 256
	offFate    = 320
	offMail    = 512
	mailBytes  = 128
	slotBytes  = 1 << 20
	ringPieces = 4
)

// descriptor is what a rank says of the phase that it publishes. Peers read it only after they saw the phase counter.
type descriptor struct {
	signature uint64 // of the request; all ranks must agree
	seq       uint64
	send      uint64 // address of the send buffer, for ranks of the same process
	recv      uint64
	_         [32]byte
}

type window struct {
	base  unsafe.Pointer
	slots unsafe.Pointer
	rings unsafe.Pointer
	ring  int64 // bytes of one ring
}

func pieceBytes(n int) int64 { return max(4<<10, min(64<<10, (8<<20)/int64(n)/ringPieces)) &^ 63 }

func slotsOffset(n int) int64 { return (offMail + int64(n)*mailBytes + 4095) &^ 4095 }

func windowBytes(n int) int64 {
	return slotsOffset(n) + 2*slotBytes + int64(n)*ringPieces*pieceBytes(n)
}

func newWindow(p device.Ptr, n int) *window {
	base := *(*unsafe.Pointer)(unsafe.Pointer(&p))
	w := &window{base: base, ring: ringPieces * pieceBytes(n)}
	w.slots = unsafe.Add(base, slotsOffset(n))
	w.rings = unsafe.Add(w.slots, 2*slotBytes)
	return w
}

func (w *window) door() *wait.Cell  { return wait.At(unsafe.Add(w.base, offDoor)) }
func (w *window) phase() *wait.Cell { return wait.At(unsafe.Add(w.base, offPhase)) }

func (w *window) desc(phase uint64) *descriptor {
	return (*descriptor)(unsafe.Add(w.base, offDesc+64*(phase&1)))
}

func (w *window) fate() *fate { return (*fate)(unsafe.Add(w.base, offFate)) }

func (w *window) abort() *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Add(w.base, offAbort)) }

func (w *window) slot(phase uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(w.slots, slotBytes*(phase&1))), slotBytes)
}

// sent counts the pieces that the owner has put in its ring for rank p; taken counts those that p has read. Each is signed with a word
// behind the cell's futex fields: the size of the message that the current pieces belong to.
func (w *window) sent(p int) *wait.Cell {
	return wait.At(unsafe.Add(w.base, offMail+mailBytes*p))
}

func (w *window) taken(p int) *wait.Cell {
	return wait.At(unsafe.Add(w.base, offMail+mailBytes*p+64))
}

// piece is where piece k of the owner's traffic to p lies; its first 16 bytes are the header.
func (w *window) piece(p int, k uint64) []byte {
	size := w.ring / ringPieces
	return unsafe.Slice((*byte)(unsafe.Add(w.rings, int64(p)*w.ring+int64(k%ringPieces)*size)), size)
}

const pieceHeader = 64

// putHeader writes the size of the whole message and of this piece; getHeader reads them. They are ordered by the sent counter.
func putHeader(b []byte, message, piece int64) {
	binary.LittleEndian.PutUint64(b, uint64(message))
	binary.LittleEndian.PutUint64(b[8:], uint64(piece))
}

func getHeader(b []byte) (message, piece int64) {
	return int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
}
