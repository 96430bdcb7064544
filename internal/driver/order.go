package driver

import (
	"sync/atomic"
	"unsafe"
)

// Order runs the work of one owner in sequence across streams, captured or not: see order.c. It holds no Go pointer,
// because C reads and writes it. It is for one goroutine at a time, except for Blocks.
type Order struct {
	Event Event
	// Word is the address of 8 bytes of device memory, initially zero. Each block of a kernel launched by LaunchInOrder
	// adds 1 to them when it ends. 0: no word.
	Word   Ptr
	blocks uint64
	// Separate is nonzero if graphs are not ordered with other graphs or with work outside of graphs. 2: nor is work on
	// several streams of one capture.
	Separate uint64
	_        [4]uint64 // fields of order.c, as below
	current  uint64    // nonzero if the stream of the latest Enter was captured
	_        [orderRest]uint64
}

// orderRest is the number of words after current in struct order of order.h: 2, and 5 per capture.
const orderRest = 2 + 64*5

// Blocks is the total that will have been added to Word when all work outside of graphs is done. Any goroutine may call
// it.
func (o *Order) Blocks() uint64 { return atomic.LoadUint64(&o.blocks) }

// Captured reports whether the stream of the latest Enter was captured.
func (o *Order) Captured() bool { return o.current != 0 }

func (o *Order) bytes() *byte { return (*byte)(unsafe.Pointer(o)) }

// Enter makes later work on s follow all earlier work of o.
//
//cu:queue Enter = goccl_order_enter(PTR(CUstream, a[0]), p)
func (c Context) Enter(s Stream, o *Order) error {
	a := args{uint64(s)}
	return call(opEnter, c, &a, o.bytes(), nil)
}

// Leave marks the end of o's work so far on s, the stream of the latest Enter.
//
//cu:queue Leave = goccl_order_leave(PTR(CUstream, a[0]), p)
func (c Context) Leave(s Stream, o *Order) error {
	a := args{uint64(s)}
	return call(opLeave, c, &a, o.bytes(), nil)
}
