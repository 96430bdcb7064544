package driver

import (
	"math"
	"unsafe"
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
	return get[Stream](c, opStreamCreate, args{1, uint64(int64(priority))})
}

// DestroyStream frees the stream when its enqueued work has finished.
func (c Context) DestroyStream(s Stream) error { return gone(c.run(opStreamDestroy, args{uint64(s)})) }

// StreamContext returns the context of s.
func (c Context) StreamContext(s Stream) (Context, error) {
	return get[Context](c, opStreamContext, args{uint64(s)})
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
	return c.run(opStreamSynchronize, args{uint64(s)})
}

// Copy enqueues a copy between any two addresses; the driver determines their location.
func (c Context) Copy(dst, src Ptr, n int64, s Stream) error {
	return c.run(opCopy, args{uint64(dst), uint64(src), uint64(n), uint64(s)})
}

// Memset8 enqueues n bytes of value; Memset32 n words.
func (c Context) Memset8(p Ptr, value byte, n int64, s Stream) error {
	return c.run(opMemset8, args{uint64(p), uint64(value), uint64(n), uint64(s)})
}

// Memset32 enqueues n 32-bit words of value at p, which is 4-aligned.
func (c Context) Memset32(p Ptr, value uint32, n int64, s Stream) error {
	return c.run(opMemset32, args{uint64(p), uint64(value), uint64(n), uint64(s)})
}

// WaitFlag is the comparison of WaitValue32 and WaitValue64.
type WaitFlag uint32

// The comparisons. WaitGEQ compares by signed difference, so counters may wrap.
const (
	WaitGEQ WaitFlag = 0
)

// WriteValue32 enqueues a store of a word after all earlier work is visible to the system.
func (c Context) WriteValue32(s Stream, p Ptr, v uint32) error {
	return c.run(opWriteValue32, args{uint64(s), uint64(p), uint64(v)})
}

// WriteValue64 is WriteValue32 for 8 bytes.
func (c Context) WriteValue64(s Stream, p Ptr, v uint64) error {
	return c.run(opWriteValue64, args{uint64(s), uint64(p), v})
}

// WaitValue32 makes later work wait until the comparison is true.
func (c Context) WaitValue32(s Stream, p Ptr, v uint32, f WaitFlag) error {
	return c.run(opWaitValue32, args{uint64(s), uint64(p), uint64(v), uint64(f)})
}

// WaitValue64 is WaitValue32 for 8 bytes.
func (c Context) WaitValue64(s Stream, p Ptr, v uint64, f WaitFlag) error {
	return c.run(opWaitValue64, args{uint64(s), uint64(p), v, uint64(f)})
}

// MemOp is one operation of MemOps: CUstreamBatchMemOpParams.
type MemOp struct {
	kind  uint64
	addr  Ptr
	value uint64
	_     [3]uint64
}

// Write stores a word once all earlier work is visible to the system.
func Write(p Ptr, v uint32) MemOp { return MemOp{kind: 2, addr: p, value: uint64(v)} }

// Wait waits until the 8-byte word at p is at least v by signed difference.
func Wait(p Ptr, v uint64) MemOp { return MemOp{kind: 4, addr: p, value: v} }

// MostMemOps is the largest number of operations of one call.
const MostMemOps = 256

// MemOps enqueues writes and waits, which run in their order. A capture makes one node of them.
func (c Context) MemOps(s Stream, ops []MemOp) error {
	a := args{uint64(s), uint64(len(ops))}
	return call(opMemOps, c, &a, (*byte)(unsafe.Pointer(unsafe.SliceData(ops))), nil)
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
func (c Context) DestroyEvent(e Event) error { return gone(c.run(opEventDestroy, args{uint64(e)})) }

// RecordEvent enqueues e on s.
func (c Context) RecordEvent(e Event, s Stream) error {
	return c.run(opEventRecord, args{uint64(e), uint64(s)})
}

// WaitEvent makes later work on s wait for e.
func (c Context) WaitEvent(s Stream, e Event) error {
	return c.run(opStreamWaitEvent, args{uint64(s), uint64(e)})
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
