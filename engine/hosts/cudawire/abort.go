package cudawire

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/transport"
)

// abortBlock is the host side of AbortBlock (kernels/include/goccl/abort.cuh).
type abortBlock struct {
	mem  *cuda.HostMemory
	word *abortWords
	wait time.Duration
	op   atomic.Pointer[wire.Op] // the latest phase
}

type abortWords struct {
	abort, reported     atomic.Uint32
	spinLimitNs, detail atomic.Uint64
	peer, op            atomic.Uint32
	_                   [32]byte
}

var _ = [1]struct{}{}[unsafe.Sizeof(abortWords{})-64]

func newAbortBlock(dev *cuda.Device, limit time.Duration) (*abortBlock, error) {
	mem, err := dev.HostAlloc(4096)
	if err != nil {
		return nil, err
	}
	b := &abortBlock{mem: mem, word: (*abortWords)(mem.Pointer()), wait: limit}
	b.word.spinLimitNs.Store(uint64(max(0, limit)))
	return b, nil
}

// submitted records the operation that is enqueued, to name it in errors. A kernel runs later than it is submitted, so
// the number is that of the latest operation that can have failed.
func (b *abortBlock) submitted(op wire.Op) {
	if last := b.op.Load(); last == nil || *last != op {
		b.op.Store(&op)
	}
}

// error makes an error of the latest operation.
func (w *Wire) error(peer int, err error) *collective.Error {
	e := &collective.Error{Comm: w.cfg.Name, Op: "communicator", Rank: w.rank, Peer: peer, Err: err}
	if op := w.abort.op.Load(); op != nil {
		e.Op, e.Seq = op.Name, op.Seq
	}
	return e
}

// report returns the error of a wait that a kernel gave up, or of a message of the wrong size, or nil.
func (w *Wire) report() error {
	w.gate.RLock()
	defer w.gate.RUnlock()
	if w.freed {
		return nil
	}
	word := w.abort.word
	peer := -1
	if p := word.peer.Load(); p != unknownPeer {
		peer = int(p)
	}
	switch word.reported.Load() {
	case statusTimeout:
		return w.error(peer, fmt.Errorf("%w: a kernel waited %v for rank %d on another host; the latest operation "+
			"submitted here is the one named", collective.ErrTimeout, w.abort.wait, peer))
	case statusInvalid:
		buffer, arrays := "recv", "RecvCounts and RecvDispls"
		if word.op.Load() != 0 {
			buffer, arrays = "send", "SendCounts and SendDispls"
		}
		return w.error(peer, fmt.Errorf("%w: DeviceCounts.%s[%d] lie outside of %s, which has %d elements, when the "+
			"operation runs", collective.ErrInvalidArgument, arrays, peer, buffer, int64(word.detail.Load())))
	case statusMismatch:
		return w.error(peer, fmt.Errorf("%w: rank %d runs another collective, or sends another size than this rank "+
			"expects: compare the calls of both ranks", collective.ErrMismatch, peer))
	}
	return nil
}

// Abort implements wire.Wire.
func (w *Wire) Abort(cause error) {
	if !w.cause.CompareAndSwap(nil, &cause) {
		return
	}
	w.gate.RLock()
	defer w.gate.RUnlock()
	if !w.freed {
		w.abort.word.abort.CompareAndSwap(0, statusAborted)
	}
}

// Err implements wire.Wire.
func (w *Wire) Err() error {
	if p := w.cause.Load(); p != nil {
		return *p
	}
	if err := w.report(); err != nil {
		w.fail(err)
		return *w.cause.Load()
	}
	return nil
}

// fail ends the wire for a reason of its own.
func (w *Wire) fail(err error) {
	w.Abort(err)
	w.told.Do(func() {
		if w.cfg.OnFailure != nil {
			w.cfg.OnFailure(err)
		}
	})
}

// broken is the error of a connection that does not work any more.
func (w *Wire) broken(l *link) error {
	return w.error(l.rank, fmt.Errorf("%w: the connection to rank %d over the network: %w", collective.ErrPeerDead,
		l.rank, l.peer.Err()))
}

// lost is called when a put failed. If the connection is not broken as a whole, no one else finds it.
func (w *Wire) lost(rank int, err error) {
	if errors.Is(err, transport.ErrPeerGone) || errors.Is(err, transport.ErrPeerClosed) || w.stopped.Load() {
		return // watch decides
	}
	w.fail(w.error(rank, fmt.Errorf("%w: a put to rank %d: %w", collective.ErrPeerDead, rank, err)))
}

const (
	watchEvery = 50 * time.Millisecond
	// linkGrace is how long a broken connection waits for the communicator's own report of the peer's death, which blames
	// the right rank.
	linkGrace = 300 * time.Millisecond
)

// watch looks for reports of kernels, and for broken connections while work is under way. A peer that has said goodbye
// is no error: the next phase with it is.
func (w *Wire) watch() {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	since, hung := time.Time{}, stall{after: w.cfg.StallWarning}
	for {
		select {
		case <-w.stop:
			return
		case <-t.C:
		}
		if w.Err() != nil {
			return
		}
		w.warnOfStall(&hung)
		l := w.brokenLink()
		if l == nil || !w.idler.busy() {
			since = time.Time{}
			continue
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) >= linkGrace {
			w.fail(w.broken(l))
			return
		}
	}
}

func (w *Wire) brokenLink() *link {
	for _, l := range *w.links.Load() {
		select {
		case <-l.peer.Failed():
			if !errors.Is(l.peer.Err(), transport.ErrPeerClosed) {
				return l
			}
		default:
		}
	}
	return nil
}

// busy reports whether work is under way. An error of the driver counts as such.
func (w *Wire) busy() bool {
	idle, err := w.order.Idle()
	return err != nil || !idle
}
