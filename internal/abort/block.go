package abort

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// Block mirrors AbortBlock of kernels/include/goccl/abort.cuh. It lies in host memory that kernels address. The host
// writes Abort and SpinLimit; kernels write Detail, Peer and Op, and then Reported, with release.
type Block struct {
	Abort     atomic.Uint32 // a reason below Timeout: waits end with it. 0: they go on
	Reported  atomic.Uint32 // how a wait ended; later waits end too. 0: none was given up
	SpinLimit atomic.Uint64 // of one wait, in ns; 0: no limit
	Detail    atomic.Uint64 // of the report
	Peer      atomic.Uint32 // the rank that the wait was for, or UnknownPeer
	Op        atomic.Uint32 // the kind of wait
	Active    atomic.Uint32 // kernels of the host device that wait. GPUs do not touch it
	_         [28]byte
}

// Bytes is the size of a Block.
const Bytes = 64

var _ [Bytes]struct{} = [unsafe.Sizeof(Block{})]struct{}{}

// The reasons of an abort, and what kernels report.
const (
	Aborted  = 1
	PeerDead = 2
	Closed   = 3

	Timeout  = 0xffff0001
	Invalid  = 0xffff0002 // an argument that the kernel refused
	Mismatch = 0xffff0003 // ranks do not agree
)

// The kinds of waits.
const (
	WaitNone uint32 = iota
	WaitSemaphore
	WaitPacket
	WaitFifoSlot
	WaitFlush
	WaitSyncer
	WaitBulk
	WaitSignal // kernels/onesided/onesided.cuh
	WaitCopy   // by the copy engine, likewise
)

// UnknownPeer is Block.Peer if the kernel does not know the peer.
const UnknownPeer = 1<<32 - 1

// At returns the Block at p.
func At(p unsafe.Pointer) *Block { return (*Block)(p) }

// Raise sets the reason, unless one is set.
func (b *Block) Raise(reason uint32) { b.Abort.CompareAndSwap(0, reason) }

// Report reports a wait for a rank that the host has given up, unless there is a report.
func (b *Block) Report(status uint32, peer int) {
	if b.Reported.Load() == 0 {
		b.Peer.Store(uint32(peer))
		b.Op.Store(WaitNone)
		b.Reported.CompareAndSwap(0, status)
	}
}

// Limit bounds each wait; d <= 0 is no bound.
func (b *Block) Limit(d time.Duration) { b.SpinLimit.Store(uint64(max(0, d))) }

// PeerRank is the rank that the reported wait was for, or -1.
func (b *Block) PeerRank() int {
	if p := b.Peer.Load(); p != UnknownPeer {
		return int(p)
	}
	return -1
}

// Clear removes the reason and the report. No kernel runs.
func (b *Block) Clear() {
	b.Reported.Store(0)
	b.Abort.Store(0)
}
