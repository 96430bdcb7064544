package shm

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/share"
)

// This is the layout of a window:
//
//	0                door cell         its owner sleeps here for messages; peers wake it
//	64               phase             the owner's phase counter
//	128 + 64·parity  descriptor        what the owner published in the phase of this parity
//	256              abort word        for the owner's own waits
//	320              fate              why the owner left
//	384              moving            1 while the owner may access peers' buffers directly
//	512              meeting           rank 0's only: the barrier of all ranks
//	640 + 128·p      mailbox cells     sent, taken: the owner's traffic to rank p
//	directory        DirectoryBytes    how peers map the owner's buffers
//	known            2 × 4·n           by parity: for each rank, its last entry that is mapped here or retired
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
	offMoving  = 384
	offMeeting = 512
	offMail    = 640
	mailBytes  = 128
	slotBytes  = 1 << 20
	ringPieces = 4
)

// meeting is the barrier of a communicator's ranks at the end of a phase.
type meeting struct {
	arrived wait.Cell        // grows by one per rank and phase; waits for it sleep here, and the last rank wakes all
	sums    [2]atomic.Uint64 // by parity: sums of the signatures, so that one load checks that all match
	left    atomic.Uint32    // number of ranks that have left; their windows give the reasons
	_       uint32
	taken   atomic.Uint64 // taken pieces of direct reductions; see op.combineTogether
	_       [32]byte
}

var _ [offMail - offMeeting]struct{} = [unsafe.Sizeof(meeting{})]struct{}{}

// descriptor is what a rank publishes with a phase. Peers read it only after they have seen the phase counter.
type descriptor struct {
	signature uint64 // of the request; all ranks must agree
	seq       uint64
	send      place
	recv      place
}

// place locates a buffer: by its address for ranks of the same process, and by its directory entry and offset for other
// ranks.
type place struct {
	address uint64
	offset  uint64
	number  uint32 // of the directory entry; 0: other processes cannot map the buffer
	_       uint32
}

var _ [64]struct{} = [unsafe.Sizeof(descriptor{})]struct{}{}

type window struct {
	n     int
	base  unsafe.Pointer
	slots unsafe.Pointer
	rings unsafe.Pointer
	ring  int64 // bytes of one ring
}

func pieceBytes(n int) int64 { return max(4<<10, min(64<<10, (8<<20)/int64(n)/ringPieces)) &^ 63 }

func directoryOffset(n int) int64 { return offMail + int64(n)*mailBytes }

func knownOffset(n int) int64 { return directoryOffset(n) + share.DirectoryBytes }

func slotsOffset(n int) int64 { return (knownOffset(n) + 8*int64(n) + 4095) &^ 4095 }

func windowBytes(n int) int64 {
	return slotsOffset(n) + 2*slotBytes + int64(n)*ringPieces*pieceBytes(n)
}

func newWindow(p device.Ptr, n int) *window {
	base := *(*unsafe.Pointer)(unsafe.Pointer(&p))
	w := &window{n: n, base: base, ring: ringPieces * pieceBytes(n)}
	w.slots = unsafe.Add(base, slotsOffset(n))
	w.rings = unsafe.Add(w.slots, 2*slotBytes)
	return w
}

func (w *window) door() *wait.Cell      { return wait.At(unsafe.Add(w.base, offDoor)) }
func (w *window) phase() *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Add(w.base, offPhase)) }

func (w *window) meeting() *meeting { return (*meeting)(unsafe.Add(w.base, offMeeting)) }

func (w *window) desc(phase uint64) *descriptor {
	return (*descriptor)(unsafe.Add(w.base, offDesc+64*(phase&1)))
}

func (w *window) fate() *fate { return (*fate)(unsafe.Add(w.base, offFate)) }

func (w *window) moving() *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Add(w.base, offMoving)) }

func (w *window) directory() device.Ptr {
	return device.Ptr(uintptr(w.base)).Add(directoryOffset(w.n))
}

// known is ordered by the phase counter, like the descriptor.
func (w *window) known(phase uint64) []uint32 {
	at := unsafe.Add(w.base, knownOffset(w.n)+4*int64(w.n)*int64(phase&1))
	return unsafe.Slice((*uint32)(at), w.n)
}

func (w *window) abort() *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Add(w.base, offAbort)) }

func (w *window) slot(phase uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(w.slots, slotBytes*(phase&1))), slotBytes)
}

// sent counts the pieces that the owner has put into its ring for rank p; taken counts the pieces that p has read.
func (w *window) sent(p int) *wait.Cell {
	return wait.At(unsafe.Add(w.base, offMail+mailBytes*p))
}

func (w *window) taken(p int) *wait.Cell {
	return wait.At(unsafe.Add(w.base, offMail+mailBytes*p+64))
}

// piece returns piece k of the owner's traffic to p; its first 16 bytes are the header.
func (w *window) piece(p int, k uint64) []byte {
	size := w.ring / ringPieces
	return unsafe.Slice((*byte)(unsafe.Add(w.rings, int64(p)*w.ring+int64(k%ringPieces)*size)), size)
}

const pieceHeader = 64

// putHeader writes the sizes of the whole message and of this piece; getHeader reads them. The sent counter orders
// them.
func putHeader(b []byte, message, piece int64) {
	binary.LittleEndian.PutUint64(b, uint64(message))
	binary.LittleEndian.PutUint64(b[8:], uint64(piece))
}

func getHeader(b []byte) (message, piece int64) {
	return int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
}
