package driver

import (
	"math"
)

// Stream is a CUstream. 0 is the context's default stream; 1 and 2 are the explicit handles of the legacy default
// stream and of the calling thread's.
type Stream uintptr

// Event is a CUevent.
type Event uintptr

// Graph is a CUgraph, GraphExec an instantiated graph.
type (
	Graph     uintptr
	GraphExec uintptr
)

// NewStream makes a stream that does not synchronize with the default stream. Smaller priorities are more urgent.
func (c Context) NewStream(priority int) (Stream, error) {
	a := args{1, uint64(int64(priority))}
	err := call(opStreamCreate, c, &a, nil, nil)
	return Stream(a[0]), err
}

// DestroyStream frees the stream when its enqueued work has finished.
func (c Context) DestroyStream(s Stream) error {
	a := args{uint64(s)}
	return gone(call(opStreamDestroy, c, &a, nil, nil))
}

// StreamContext returns the context of s.
func (c Context) StreamContext(s Stream) (Context, error) {
	a := args{uint64(s)}
	err := call(opStreamContext, c, &a, nil, nil)
	return Context(a[0]), err
}

// StreamDone reports whether all enqueued work has run.
func (c Context) StreamDone(s Stream) (bool, error) {
	a := args{uint64(s)}
	return done(call(opStreamQuery, c, &a, nil, nil))
}

func done(err error) (bool, error) {
	if err == nil {
		return true, nil
	}
	if IsCode(err, NotReady) {
		return false, nil
	}
	return false, err
}

// SynchronizeStream waits in the driver, without a bound.
func (c Context) SynchronizeStream(s Stream) error {
	a := args{uint64(s)}
	return call(opStreamSynchronize, c, &a, nil, nil)
}

// Copy enqueues a copy between any two addresses; the driver determines their location.
func (c Context) Copy(dst, src Ptr, n int64, s Stream) error {
	a := args{uint64(dst), uint64(src), uint64(n), uint64(s)}
	return call(opCopy, c, &a, nil, nil)
}

// Memset8 enqueues n bytes of value; Memset32 n words.
func (c Context) Memset8(p Ptr, value byte, n int64, s Stream) error {
	a := args{uint64(p), uint64(value), uint64(n), uint64(s)}
	return call(opMemset8, c, &a, nil, nil)
}

// Memset32 enqueues n 32-bit words of value at p, which is 4-aligned.
func (c Context) Memset32(p Ptr, value uint32, n int64, s Stream) error {
	a := args{uint64(p), uint64(value), uint64(n), uint64(s)}
	return call(opMemset32, c, &a, nil, nil)
}

// WaitFlag is the comparison of WaitValue32 and WaitValue64.
type WaitFlag uint32

// The comparisons. WaitGEQ compares by signed difference, so counters may wrap.
const (
	WaitGEQ WaitFlag = 0
	WaitEQ  WaitFlag = 1
	WaitAND WaitFlag = 2
)

// WriteValue32 enqueues a store of a word after all earlier work is visible to the system.
func (c Context) WriteValue32(s Stream, p Ptr, v uint32) error {
	a := args{uint64(s), uint64(p), uint64(v)}
	return call(opWriteValue32, c, &a, nil, nil)
}

// WriteValue64 is WriteValue32 for 8 bytes.
func (c Context) WriteValue64(s Stream, p Ptr, v uint64) error {
	a := args{uint64(s), uint64(p), v}
	return call(opWriteValue64, c, &a, nil, nil)
}

// WaitValue32 makes later work wait until the comparison is true.
func (c Context) WaitValue32(s Stream, p Ptr, v uint32, f WaitFlag) error {
	a := args{uint64(s), uint64(p), uint64(v), uint64(f)}
	return call(opWaitValue32, c, &a, nil, nil)
}

// WaitValue64 is WaitValue32 for 8 bytes.
func (c Context) WaitValue64(s Stream, p Ptr, v uint64, f WaitFlag) error {
	a := args{uint64(s), uint64(p), v, uint64(f)}
	return call(opWaitValue64, c, &a, nil, nil)
}

// NewEvent makes an event; Elapsed requires timing.
func (c Context) NewEvent(timing bool) (Event, error) {
	a := args{2}
	if timing {
		a[0] = 0
	}
	err := call(opEventCreate, c, &a, nil, nil)
	return Event(a[0]), err
}

// DestroyEvent frees an event; work that waits for it still does.
func (c Context) DestroyEvent(e Event) error {
	a := args{uint64(e)}
	return gone(call(opEventDestroy, c, &a, nil, nil))
}

// RecordEvent enqueues e on s.
func (c Context) RecordEvent(e Event, s Stream) error {
	a := args{uint64(e), uint64(s)}
	return call(opEventRecord, c, &a, nil, nil)
}

// WaitEvent makes later work on s wait for e.
func (c Context) WaitEvent(s Stream, e Event) error {
	a := args{uint64(s), uint64(e)}
	return call(opStreamWaitEvent, c, &a, nil, nil)
}

// EventDone reports whether e was reached.
func (c Context) EventDone(e Event) (bool, error) {
	a := args{uint64(e)}
	return done(call(opEventQuery, c, &a, nil, nil))
}

// Elapsed returns the time in seconds between two events that were reached.
func (c Context) Elapsed(start, end Event) (float64, error) {
	a := args{uint64(start), uint64(end)}
	if err := call(opEventElapsed, c, &a, nil, nil); err != nil {
		return 0, err
	}
	return float64(math.Float32frombits(uint32(a[0]))) / 1e3, nil
}
