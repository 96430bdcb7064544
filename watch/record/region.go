package record

import (
	"bytes"
	"sync/atomic"
	"unsafe"
)

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
