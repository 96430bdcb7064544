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
//
//cu:call (c Context) NewStream(priority int) (s Stream) = cuStreamCreateWithPriority(s, GOCCL_NON_BLOCKING, priority)

// DestroyStream frees the stream when its enqueued work has finished.
//
//cu:call (c Context) DestroyStream(s Stream) = gone cuStreamDestroy_v2(s)

// StreamContext returns the context of s.
//
//cu:call (c Context) StreamContext(s Stream) (of Context) = cuStreamGetCtx(s, of)

//cu:call (c Context) queryStream(s Stream) = cuStreamQuery(s)

// StreamDone reports whether all enqueued work has run.
func (c Context) StreamDone(s Stream) (bool, error) { return done(c.queryStream(s)) }

func done(err error) (bool, error) {
	if err == nil {
		return true, nil
	}
	if err == errNotReady {
		return false, nil
	}
	return false, err
}

// SynchronizeStream waits in the driver, without a bound.
//
//cu:call (c Context) SynchronizeStream(s Stream) = cuStreamSynchronize(s)

// Copy enqueues a copy between any two addresses; the driver determines their location.
//
//cu:queue (c Context) Copy(dst, src Ptr, n int64, s Stream) = cuMemcpyAsync(dst, src, n, s)

// Memset8 enqueues n bytes of value.
//
//cu:queue (c Context) Memset8(p Ptr, value byte, n int64, s Stream) = cuMemsetD8Async(p, value, n, s)

// WriteValue64 enqueues a store of 8 bytes after all earlier work is visible to the system.
//
//cu:queue (c Context) WriteValue64(s Stream, p Ptr, v uint64) = cuStreamWriteValue64_v2(s, p, v, 0)

// WaitValue64 makes later work wait until the 8 bytes at p are at least v by signed difference, so counters may wrap.
//
//cu:queue (c Context) WaitValue64(s Stream, p Ptr, v uint64) = cuStreamWaitValue64_v2(s, p, v, GOCCL_WAIT_GEQ)

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
//
//cu:queue MemOps = cuStreamBatchMemOp_v2(a0, a1, p, 0)
func (c Context) MemOps(s Stream, ops []MemOp) error {
	a := args{uint64(s), uint64(len(ops))}
	return call(opMemOps, c, &a, (*byte)(unsafe.Pointer(unsafe.SliceData(ops))), nil)
}

// NewEvent makes an event; Elapsed requires timing.
func (c Context) NewEvent(timing bool) (Event, error) {
	if timing {
		return c.newEvent(0)
	}
	return c.newEvent(2)
}

//cu:call (c Context) newEvent(flags uint32) (e Event) = cuEventCreate(e, flags)

// DestroyEvent frees an event; work that waits for it still does.
//
//cu:call (c Context) DestroyEvent(e Event) = gone cuEventDestroy_v2(e)

// RecordEvent enqueues e on s.
//
//cu:queue (c Context) RecordEvent(e Event, s Stream) = cuEventRecord(e, s)

// WaitEvent makes later work on s wait for e.
//
//cu:queue (c Context) WaitEvent(s Stream, e Event) = cuStreamWaitEvent(s, e, 0)

//cu:call (c Context) queryEvent(e Event) = cuEventQuery(e)

// EventDone reports whether e was reached.
func (c Context) EventDone(e Event) (bool, error) { return done(c.queryEvent(e)) }

// Elapsed returns the time in seconds between two events that were reached.
func (c Context) Elapsed(start, end Event) (float64, error) {
	bits, err := c.elapsed(start, end)
	return float64(math.Float32frombits(bits)) / 1e3, err
}

//cu:call (c Context) elapsed(start, end Event) (ms uint32) = elapsed(a)
