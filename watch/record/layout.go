package record

import (
	"bytes"
	"sync/atomic"
	"unsafe"
)

// This is the layout of the file, in the byte order of the machine:
//
//	0       header            of the process
//	64 Ki   regions           one a communicator, all of header.size
//
// A region:
//
//	0       regionHeader
//	2048    verdict           JSON, ended by a zero byte
//	4096    Meta              JSON, ended by a zero byte
//	8192    entries, runs     of collectives: operation n is at index n mod entries
//	        entries, runs     of messages, in the same number
const (
	fileMagic    = 0x636572_6c63636f67 // "goccl" "rec"
	fileVersion  = 2
	headerBytes  = 64 << 10 // a multiple of every page size
	verdictAt    = 2048
	verdictBytes = 2048
	metaAt       = 4096
	metaBytes    = 4096
	entriesAt    = 8192
	entryBytes   = 64
	runBytes     = 32
	mostWaits    = 16
	mostKinds    = 32 // collectives that have totals
	mostEntries  = 1 << 16
	mostRegions  = 1 << 16
)

type header struct {
	magic   uint64
	version uint32
	pid     uint32
	born    uint64 // start time of the process, in the unit of /proc
	entries uint32 // of each of the two rings of a region
	size    uint32 // of a region: regionBytes, rounded up to pages
	regions atomic.Uint32
	clock   clock
	host    [64]byte
	program [64]byte
}

// Values of regionHeader.state.
const (
	regionFree uint32 = iota
	regionOpen
	regionFailed // the communicator has failed
)

type regionHeader struct {
	state       atomic.Uint32
	rank        int32
	size        int32
	_           uint32
	id          uint64
	collectives uint64 // number of the latest; written before the entry's
	messages    uint64
	totals      [mostKinds]total
	spent       [mostKinds]uint64 // ticks from start to end
	waits       [mostWaits]wait
	waiting     atomic.Uint32 // how many of waits are valid
	captured    uint64        // collectives that were captured into graphs
}

// total counts the operations of one collective.
type total struct{ operations, bytes uint64 }

type wait struct {
	peer, flag  uint32
	epoch, have uint64
}

// entry is what the caller knows of an operation. number is 0 while the other fields change, and published after them.
type entry struct {
	number   uint64
	count    uint64
	what     uint64 // from the lowest byte: collective, type, operator; in the upper half root or peer
	stream   uint64
	enqueued uint64 // ticks, or untimed
	mark     uint64 // 1 + the mark of Recorder.Marked; 0: none yet
	_        [2]uint64
}

// run is what the engine knows of it. The engine runs on another processor than the caller, so neither touches the
// other's cache lines. Started writes ended and flags before number, and ended is written last; each store is of one
// word, which readers see whole.
type run struct {
	number  uint64
	started uint64 // 0, untimed or ticks
	ended   uint64
	flags   uint64 // the lowest byte: 1 + the algorithm
}

// Bits of run.flags.
const (
	flagSampled  = 1 << 63 // the end is the time of a look: the operation ended before it
	flagFailed   = 1 << 62
	flagCaptured = 1 << 61 // the end is the time of the call
)

var _ = [1]struct{}{}[unsafe.Sizeof(entry{})-entryBytes]
var _ = [1]struct{}{}[unsafe.Sizeof(run{})-runBytes]
var _ [verdictAt - unsafe.Sizeof(regionHeader{})]byte
var _ [headerBytes - unsafe.Sizeof(header{})]byte

// regionBytes is the size of a region's contents.
func regionBytes(entries int) int64 { return entriesAt + 2*int64(entries)*(entryBytes+runBytes) }

// region is the mapped memory of one communicator.
type region struct {
	*regionHeader
	mem   []byte
	rings [2]ring // of collectives, of messages
}

// ring is the latest operations of one numbering.
type ring struct {
	entries []entry
	runs    []run
}

// regionOf interprets memory of regionBytes(entries).
func regionOf(mem []byte, entries int) *region {
	r := &region{regionHeader: (*regionHeader)(unsafe.Pointer(&mem[0])), mem: mem}
	at := entriesAt
	for i := range r.rings {
		r.rings[i].entries = unsafe.Slice((*entry)(unsafe.Pointer(&mem[at])), entries)
		at += entries * entryBytes
		r.rings[i].runs = unsafe.Slice((*run)(unsafe.Pointer(&mem[at])), entries)
		at += entries * runBytes
	}
	return r
}

// ring is the ring of messages or of collectives.
func (r *region) ring(message bool) *ring {
	if message {
		return &r.rings[1]
	}
	return &r.rings[0]
}

// marked is the mark of an operation on a GPU (Recorder.Marked) plus one; 0 if it has none, or the ring does not have
// it.
func (g *ring) marked(number uint64) uint64 {
	e := &g.entries[number%uint64(len(g.entries))]
	mark := e.mark
	if atomic.LoadUint64(&e.number) != number {
		return 0
	}
	return mark
}

// latest is the number of the latest message or collective.
func (r *region) latest(message bool) uint64 {
	if message {
		return r.messages
	}
	return r.collectives
}

// put writes a text that ends with a zero byte.
func put(room, text []byte) {
	n := copy(room[:len(room)-1], text)
	room[n] = 0
}

// get reads a text that put wrote.
func get(room []byte) []byte {
	if n := bytes.IndexByte(room, 0); n >= 0 {
		return bytes.Clone(room[:n])
	}
	return nil
}
