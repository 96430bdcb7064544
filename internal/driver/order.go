package driver

import (
	"sync/atomic"
	"unsafe"
)

// Order puts the work of one owner in sequence, whatever streams it goes to: work on another stream than the latest waits for that, which has left a
// mark unless it was captured. Kernels launched by LaunchInOrder leave theirs in Word, if there is one, other work in Event. It holds no Go
// pointer, because C reads and writes it; it is for one goroutine at a time, but for Blocks.
type Order struct {
	Event Event
	// Word is the address of 8 bytes of device memory, zero at first, to which each block of such a kernel adds 1 when it ends. 0: none.
	Word   Ptr
	blocks uint64
	_      [4]uint64 // last, mark, captured, now: dispatch.c's
}

// Blocks is how much will have been added to Word when all work so far is done; by any goroutine.
func (o *Order) Blocks() uint64 { return atomic.LoadUint64(&o.blocks) }

func (o *Order) bytes() *byte { return (*byte)(unsafe.Pointer(o)) }

// Enter makes later work on s follow all earlier work of o, unless s is being captured.
func (c Context) Enter(s Stream, o *Order) error {
	a := args{uint64(s)}
	return call(opEnter, c, &a, o.bytes(), nil)
}

// Leave marks the end of o's work so far, which is on s, the stream of the latest Enter.
func (c Context) Leave(s Stream, o *Order) error {
	a := args{uint64(s)}
	return call(opLeave, c, &a, o.bytes(), nil)
}

var _ = [1]struct{}{}[unsafe.Sizeof(Order{})-56] // struct order in dispatch.c
