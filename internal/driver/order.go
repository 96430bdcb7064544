package driver

import "unsafe"

// Order puts the work of one owner in sequence, whatever streams it goes to: an event is recorded behind all work that is not captured, and work
// on another stream waits for it. It holds no Go pointer, because C reads and writes it; it is for one goroutine at a time.
type Order struct {
	Event Event
	_     [4]uint64 // last, busy, captured, now: dispatch.c's
}

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

var _ = [1]struct{}{}[unsafe.Sizeof(Order{})-40] // struct order in dispatch.c
