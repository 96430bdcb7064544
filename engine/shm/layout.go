package shm

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/job/share"
)

// This is the layout of an arena:
//
//	0                door cell         its owner sleeps here for messages; peers wake it
//	64               phase             the owner's phase counter
//	128 + 64·parity  descriptor        what the owner published in the phase of this parity
//	256              abort word        for the owner's own waits
//	320              exit status       why the owner left
//	384              moving            1 while the owner may access peers' buffers directly
//	512              meeting           rank 0's only: the barrier of all ranks
//	640 + 128·p      mailbox cells     sent, taken: the owner's traffic to rank p
//	directory        DirectoryBytes    how peers map the owner's buffers
//	known            2 × 4·n           by parity: for each rank, its last entry that is mapped here or retired
//	slots            2 × slotBytes     the data of a phase, by parity
//	rings            n × ringBytes     the owner's traffic to rank p
//
// The owner writes the whole arena, except for the taken cells, which their receivers write, and the futex fields of
// the cells.
const (
	offDoor    = 0
	offPhase   = 64
	offDesc    = 128
	offAbort   = 256
	offExit    = 320
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
	left    atomic.Uint32    // number of ranks that have left; their arenas give the reasons
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

type arena struct {
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

func arenaBytes(n int) int64 {
	return slotsOffset(n) + 2*slotBytes + int64(n)*ringPieces*pieceBytes(n)
}

func newArena(p device.Ptr, n int) *arena {
	base := *(*unsafe.Pointer)(unsafe.Pointer(&p))
	a := &arena{n: n, base: base, ring: ringPieces * pieceBytes(n)}
	a.slots = unsafe.Add(base, slotsOffset(n))
	a.rings = unsafe.Add(a.slots, 2*slotBytes)
	return a
}

func (a *arena) door() *wait.Cell      { return wait.At(unsafe.Add(a.base, offDoor)) }
func (a *arena) phase() *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Add(a.base, offPhase)) }

func (a *arena) meeting() *meeting { return (*meeting)(unsafe.Add(a.base, offMeeting)) }

func (a *arena) desc(phase uint64) *descriptor {
	return (*descriptor)(unsafe.Add(a.base, offDesc+64*(phase&1)))
}

func (a *arena) exitStatus() *exitStatus { return (*exitStatus)(unsafe.Add(a.base, offExit)) }

func (a *arena) moving() *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Add(a.base, offMoving)) }

// known is ordered by the phase counter, like the descriptor.
func (a *arena) known(phase uint64) []uint32 {
	at := unsafe.Add(a.base, knownOffset(a.n)+4*int64(a.n)*int64(phase&1))
	return unsafe.Slice((*uint32)(at), a.n)
}

func (a *arena) abort() *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Add(a.base, offAbort)) }

func (a *arena) slot(phase uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(a.slots, slotBytes*(phase&1))), slotBytes)
}

// sent counts the pieces that the owner has put into its ring for rank p; taken counts the pieces that p has read.
func (a *arena) sent(p int) *wait.Cell {
	return wait.At(unsafe.Add(a.base, offMail+mailBytes*p))
}

func (a *arena) taken(p int) *wait.Cell {
	return wait.At(unsafe.Add(a.base, offMail+mailBytes*p+64))
}

// piece returns piece k of the owner's traffic to p; its first 16 bytes are the header.
func (a *arena) piece(p int, k uint64) []byte {
	size := a.ring / ringPieces
	return unsafe.Slice((*byte)(unsafe.Add(a.rings, int64(p)*a.ring+int64(k%ringPieces)*size)), size)
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
