package driver

import (
	"sync/atomic"
	"unsafe"
)

// Order puts the work of one owner in sequence, whatever streams it goes to, captured or not: order.c says how. It holds no Go pointer, because C reads
// and writes it; it is for one goroutine at a time, but for Blocks.
type Order struct {
	Event Event
	// Word is the address of 8 bytes of device memory, zero at first, to which each block of a kernel launched by LaunchInOrder adds 1 when it ends.
	// 0: none.
	Word   Ptr
	blocks uint64
	// Separate is not 0 where graphs are not ordered with other graphs and with work outside of graphs.
	Separate uint64
	_        [orderRest]uint64 // order.c's
}

// orderRest is what struct order of order.h has behind separate: 7 words, and 5 for each capture.
const orderRest = 7 + 64*5

// Blocks is how much will have been added to Word when all work outside of graphs is done; by any goroutine.
func (o *Order) Blocks() uint64 { return atomic.LoadUint64(&o.blocks) }

func (o *Order) bytes() *byte { return (*byte)(unsafe.Pointer(o)) }

// Enter makes later work on s follow all earlier work of o.
func (c Context) Enter(s Stream, o *Order) error {
	a := args{uint64(s)}
	return call(opEnter, c, &a, o.bytes(), nil)
}

// Leave marks the end of o's work so far, which is on s, the stream of the latest Enter.
func (c Context) Leave(s Stream, o *Order) error {
	a := args{uint64(s)}
	return call(opLeave, c, &a, o.bytes(), nil)
}
