package primitive

import (
	"sync/atomic"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/abort"
)

// The Go twins of goccl::BaseMemoryChannelHandle and goccl::MemoryChannelHandle, for host kernels. Offsets and sizes
// are in bytes. Calls with (tid, nthreads) are cooperative: each thread 0…nthreads-1 makes the same call and does its
// part; the calls do not synchronise the threads.

// Signal, RelaxedSignal, Poll, Wait and RelaxedWait call the semaphore's methods.
func (h *BaseMemoryChannelHandle) Signal()             { h.Semaphore.Signal() }
func (h *BaseMemoryChannelHandle) RelaxedSignal()      { h.Semaphore.RelaxedSignal() }
func (h *BaseMemoryChannelHandle) Poll() bool          { return h.Semaphore.Poll() }
func (h *BaseMemoryChannelHandle) Wait() Status        { return h.Semaphore.Wait() }
func (h *BaseMemoryChannelHandle) RelaxedWait() Status { return h.Semaphore.RelaxedWait() }

// Signal, RelaxedSignal, Poll, Wait and RelaxedWait call the semaphore's methods.
func (h *MemoryChannelHandle) Signal()             { h.Semaphore.Signal() }
func (h *MemoryChannelHandle) RelaxedSignal()      { h.Semaphore.RelaxedSignal() }
func (h *MemoryChannelHandle) Poll() bool          { return h.Semaphore.Poll() }
func (h *MemoryChannelHandle) Wait() Status        { return h.Semaphore.Wait() }
func (h *MemoryChannelHandle) RelaxedWait() Status { return h.Semaphore.RelaxedWait() }

// split returns thread tid's part [lo, hi) of n bytes, in whole cache lines.
func split(n int64, tid, nthreads int) (lo, hi int64) {
	const line = 64
	lines := (n + line - 1) / line
	lo = min(n, lines*int64(tid)/int64(nthreads)*line)
	hi = min(n, lines*int64(tid+1)/int64(nthreads)*line)
	return lo, hi
}

func copyPart(dst, src device.Ptr, n int64, tid, nthreads int) {
	lo, hi := split(n, tid, nthreads)
	if lo < hi {
		copy(device.Bytes(dst.Add(lo), hi-lo), device.Bytes(src.Add(lo), hi-lo))
	}
}

// Put copies bytes from Src+originOffset to the peer's Dst+targetOffset. It does not order its writes; Signal publishes
// them.
func (h *MemoryChannelHandle) Put(targetOffset, originOffset, bytes int64, tid, nthreads int) {
	copyPart(h.Dst.Add(targetOffset), h.Src.Add(originOffset), bytes, tid, nthreads)
}

// Get copies bytes from the peer's Dst+targetOffset to Src+originOffset.
func (h *MemoryChannelHandle) Get(targetOffset, originOffset, bytes int64, tid, nthreads int) {
	copyPart(h.Src.Add(originOffset), h.Dst.Add(targetOffset), bytes, tid, nthreads)
}

// PutWithSignal is a Put by one thread and a Signal that publishes it. Several threads instead put, synchronise at a
// barrier, and one of them signals.
func (h *MemoryChannelHandle) PutWithSignal(targetOffset, originOffset, bytes int64) {
	h.Put(targetOffset, originOffset, bytes, 0, 1)
	h.Signal()
}

// Element is the element type of Read and Write: plain values without pointers.
type Element interface {
	~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// Read returns element index of the peer's memory.
func Read[T Element](h *MemoryChannelHandle, index int64) T {
	var v T
	return *(*T)(pointer(h.Dst.Add(index * int64(unsafe.Sizeof(v)))))
}

// Write sets element index of the peer's memory.
func Write[T Element](h *MemoryChannelHandle, index int64, v T) {
	*(*T)(pointer(h.Dst.Add(index * int64(unsafe.Sizeof(v))))) = v
}

// PutPackets writes bytes of Src+originOffset as packets of epoch flag to the peer's packet memory, its
// Dst+targetOffset. flag is never 0 and increases by one for each use of the memory.
func (h *MemoryChannelHandle) PutPackets(p Packet, targetOffset, originOffset, bytes int64, tid, nthreads int,
	flag uint32) {
	CopyToPackets(p, h.Dst.Add(targetOffset), h.Src.Add(originOffset), bytes, tid, nthreads, flag)
}

// UnpackPackets waits for the packets of epoch flag at PacketBuffer+targetOffset and writes their payload to
// Src+originOffset.
func (h *MemoryChannelHandle) UnpackPackets(p Packet, targetOffset, originOffset, bytes int64, tid, nthreads int,
	flag uint32) Status {
	return CopyFromPackets(p, h.Src.Add(originOffset), h.PacketBuffer.Add(targetOffset), bytes, tid, nthreads, flag,
		h.Semaphore.Abort)
}

// UnpackPacket waits for LL16 packet index of the packet buffer and returns its payload.
func (h *MemoryChannelHandle) UnpackPacket(index int64, flag uint32) (uint64, Status) {
	at := h.PacketBuffer.Add(index * int64(LL16.Size()))
	a, b := (*atomic.Uint64)(pointer(at)), (*atomic.Uint64)(pointer(at.Add(8)))
	var x, y uint64
	s := waitCell(nil, func() bool {
		x, y = a.Load(), b.Load()
		return uint32(x>>32) == flag && uint32(y>>32) == flag
	}, h.Semaphore.Abort, at, abort.WaitPacket)
	return x&0xffffffff | y<<32, s
}
