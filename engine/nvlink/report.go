package nvlink

import (
	"fmt"
	"sync/atomic"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/abort"
)

// latest is the latest request. Kernels run later than they are enqueued, so it is the latest one that can have failed.
type latest struct {
	seq atomic.Uint64
	op  atomic.Uint32
}

func (l *latest) set(seq uint64, op collective.Collective) {
	l.seq.Store(seq)
	l.op.Store(uint32(op))
}

func (l *latest) name() collective.Collective { return collective.Collective(l.op.Load()) }

// AbortWord grants the address of the word that becomes different from 0 when work of this rank is aborted or fails.
// Kernels of the caller may poll it until Close, and after an abort for as long as they run: then it is not freed.
func (e *Engine) AbortWord() device.Ptr { return e.launcher.Grant() }

// AbortBlock is the address of the block that kernels of the communicator poll and report to. They have ended before
// Close.
func (e *Engine) AbortBlock() device.Ptr { return e.launcher.Block() }

// See kernels/collective/all_to_all_v.cuh: Block.Op of a report of counts that differ. Detail is the peer's number of
// bytes; the peer sends them if Op is peerSends, else it expects them.
const peerSends = 0

// report is the error of a wait that timed out on the device, or of counts that were wrong there.
func (e *Engine) report(status uint32, b *abort.Block) error {
	if status != abort.Timeout {
		return e.renumbered(e.reportCounts(status, b))
	}
	err := &collective.Error{Comm: e.name, Op: e.latest.name().String(), Rank: e.rank, Peer: b.PeerRank(),
		Seq: e.latest.seq.Load()}
	switch b.Op.Load() {
	case abort.WaitSignal:
		err.Op, err.Seq = "wait signal", 0
		err.Err = fmt.Errorf("%w: a kernel waited %v for signals of rank %d", collective.ErrTimeout, e.timeout, err.Peer)
	case abort.WaitCopy:
		err.Op, err.Seq = "put signal", 0
		err.Err = fmt.Errorf("%w: a kernel waited %v for the copy to rank %d", collective.ErrTimeout, e.timeout, err.Peer)
	default:
		err.Err = fmt.Errorf("%w: the GPU waited %v for data; the latest operation submitted here is the one named",
			collective.ErrTimeout, e.timeout)
	}
	err = e.renumbered(err)
	if e.explain != nil {
		err.Verdict = e.explain(err)
	}
	return err
}

// reportCounts returns the error of counts that were wrong on the device. The failed operation is an
// all_to_all_v_device; its number is known only if it is the latest operation.
func (e *Engine) reportCounts(status uint32, b *abort.Block) *collective.Error {
	var seq uint64
	if e.latest.name() == collective.AllToAllVDevice {
		seq = e.latest.seq.Load()
	}
	peer, detail, op := int(b.Peer.Load()), b.Detail.Load(), b.Op.Load()
	err := &collective.Error{Comm: e.name, Op: collective.AllToAllVDevice.String(), Rank: e.rank, Peer: peer, Seq: seq}
	if status == abort.Invalid { // Detail is the peer's count; Op is not 0 for a send
		buffer, arrays := "recv", "RecvCounts and RecvDispls"
		if op != 0 {
			buffer, arrays = "send", "SendCounts and SendDispls"
		}
		err.Err = fmt.Errorf(
			"%w: DeviceCounts.%s[%d] lie outside of %s, which is not as long, when the operation runs: %d elements",
			collective.ErrInvalidArgument, arrays, peer, buffer, int64(detail))
		return err
	}
	verb, side := "expects", "send"
	if op == peerSends {
		verb, side = "sends", "receive"
	}
	err.Err = fmt.Errorf("%w: rank %d %s %d bytes here, and this rank's %s count, read on the device, is for another "+
		"number", collective.ErrMismatch, peer, verb, detail, side)
	return err
}

// renumbered replaces the ranks of this engine by their numbers in the whole communicator.
func (e *Engine) renumbered(err *collective.Error) *collective.Error {
	if e.names != nil {
		if err.Rank = e.names[err.Rank]; err.Peer >= 0 && err.Peer < len(e.names) {
			err.Peer = e.names[err.Peer]
		}
	}
	return err
}
