package nvlink

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

// abortBlock is the host side of AbortBlock (kernels/include/goccl/abort.cuh): one per communicator, in mapped host
// memory.
type abortBlock struct {
	mem  *cuda.HostMemory
	word *abortWords
	seq  atomic.Uint64 // of the latest submission
	op   atomic.Uint32
	wait time.Duration
	lent atomic.Bool // kernels of the caller may poll it
	cut  bool        // the communicator has failed or was aborted before it was closed
}

type abortWords struct {
	abort, reported     atomic.Uint32
	spinLimitNs, detail atomic.Uint64
	peer, op            atomic.Uint32
	_                   [32]byte
}

const (
	statusAborted = 1
	statusTimeout = 0xffff0001
	statusInvalid = 0xffff0002 // a message exceeds its buffer: detail is its count, op is nonzero for a send

	// See kernels/collective/all_to_all_v.cuh: the counts of a peer and of this rank differ. detail is the peer's
	// number of bytes; op is peerSends if the peer sends them, else the peer expects them.
	statusMismatch = 0xffff0003
	peerSends      = 0
	unknownPeer    = 0xffffffff

	waitSignal = 7 // the op of a wait for signals: kernels/onesided/onesided.cuh
)

func newAbortBlock(dev *cuda.Device, limit time.Duration) (*abortBlock, error) {
	mem, err := dev.HostAlloc(4096)
	if err != nil {
		return nil, err
	}
	b := &abortBlock{mem: mem, word: (*abortWords)(mem.Pointer()), wait: limit}
	b.word.spinLimitNs.Store(uint64(max(0, limit)))
	return b, nil
}

func (b *abortBlock) ptr() uint64 { return uint64(b.mem.Ptr()) }

// AbortWord lends the address of the word that becomes different from 0 when the work of this rank is aborted or fails.
// Kernels of the caller may poll it until Close, and after an abort for as long as they run: then it is not freed.
func (e *Engine) AbortWord() device.Ptr {
	e.abort.lent.Store(true)
	return e.abort.mem.Ptr()
}

// AbortBlock is the address of the block that kernels of the communicator poll and report to. They have ended before
// Close.
func (e *Engine) AbortBlock() device.Ptr { return e.abort.mem.Ptr() }

func (b *abortBlock) raise() { b.word.abort.CompareAndSwap(0, statusAborted) }

// submitted records what is being enqueued, to name it if a wait times out. Kernels run later than they are submitted,
// so the number is that of the latest operation that can have failed.
func (b *abortBlock) submitted(seq uint64, r *collective.Request) {
	b.seq.Store(seq)
	b.op.Store(uint32(r.Called()))
}

// report returns the error of a wait that timed out on the device, or of counts that were wrong there, or nil.
func (b *abortBlock) report(name string, rank int) error {
	switch b.word.reported.Load() {
	case statusTimeout:
	case statusMismatch, statusInvalid:
		return b.counts(name, rank)
	default:
		return nil
	}
	peer := -1
	if p := b.word.peer.Load(); p != unknownPeer {
		peer = int(p)
	}
	if b.word.op.Load() == waitSignal {
		return &collective.Error{Comm: name, Op: "wait signal", Rank: rank, Peer: peer,
			Err: fmt.Errorf("%w: a kernel waited %v for signals of rank %d", collective.ErrTimeout, b.wait, peer)}
	}
	return &collective.Error{Comm: name, Op: collective.Collective(b.op.Load()).String(), Rank: rank, Peer: peer,
		Seq: b.seq.Load(),
		Err: fmt.Errorf("%w: a kernel waited %v for data; the latest operation submitted here is the one named",
			collective.ErrTimeout, b.wait)}
}

// counts returns the error of counts that were wrong on the device. The failed operation is an all_to_all_v_device; its
// number is known only if it is the latest operation.
func (b *abortBlock) counts(name string, rank int) error {
	var seq uint64
	if collective.Collective(b.op.Load()) == collective.AllToAllVDevice {
		seq = b.seq.Load()
	}
	peer, detail, op := int(b.word.peer.Load()), b.word.detail.Load(), b.word.op.Load()
	e := &collective.Error{Comm: name, Op: collective.AllToAllVDevice.String(), Rank: rank, Peer: peer, Seq: seq}
	if b.word.reported.Load() == statusInvalid {
		buffer, arrays := "recv", "RecvCounts and RecvDispls"
		if op != 0 {
			buffer, arrays = "send", "SendCounts and SendDispls"
		}
		e.Err = fmt.Errorf(
			"%w: DeviceCounts.%s[%d] lie outside of %s, which is not as long, when the operation runs: %d elements",
			collective.ErrInvalidArgument,
			arrays, peer, buffer, int64(detail))
		return e
	}
	verb, side := "expects", "send"
	if op == peerSends {
		verb, side = "sends", "receive"
	}
	e.Err = fmt.Errorf("%w: rank %d %s %d bytes here, and this rank's %s count, read on the device, is for another number",
		collective.ErrMismatch, peer, verb, detail, side)
	return e
}

// report checks whether a kernel gave up a wait.
func (e *Engine) report() error {
	e.gate.RLock()
	defer e.gate.RUnlock()
	if e.freed {
		return nil
	}
	return e.renumbered(e.abort.report(e.name, e.rank))
}

// renumbered replaces the ranks of this engine by their numbers in the whole communicator.
func (e *Engine) renumbered(err error) error {
	if x, ok := err.(*collective.Error); ok && e.names != nil {
		if x.Rank = e.names[x.Rank]; x.Peer >= 0 && x.Peer < len(e.names) {
			x.Peer = e.names[x.Peer]
		}
	}
	return err
}

// stopWatching is the first step of Close: from here on the abort is that of Close.
func (e *Engine) stopWatching() {
	close(e.stop)
	e.watch.Wait()
	e.abort.cut = e.cause.Load() != nil
}

// close frees the block, unless kernels of an aborted communicator may still poll it.
func (b *abortBlock) close() error {
	if b.cut && b.lent.Load() {
		return nil
	}
	return b.mem.Close()
}

var _ = [1]struct{}{}[unsafe.Sizeof(abortWords{})-64]
