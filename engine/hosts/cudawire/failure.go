package cudawire

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/transport"
)

// submitted records the operation that is enqueued, to name it in errors. A kernel runs later than it is submitted, so
// the number is the latest operation that can have failed.
func (w *Wire) submitted(op wire.Op) {
	if last := w.latest.Load(); last == nil || *last != op {
		w.latest.Store(&op)
	}
}

// error makes an error of the latest operation.
func (w *Wire) error(peer int, err error) *collective.Error {
	e := &collective.Error{Comm: w.cfg.Name, Op: "communicator", Rank: w.rank, Peer: peer, Err: err}
	if op := w.latest.Load(); op != nil {
		e.Op, e.Seq = op.Name, op.Seq
	}
	return e
}

// report is the error of a wait that a kernel gave up, or of a message of the wrong size.
func (w *Wire) report(status uint32, b *abort.Block) error {
	peer := b.PeerRank()
	switch status {
	case abort.Timeout:
		return w.error(peer, fmt.Errorf("%w: a kernel waited %v for rank %d on another host; the latest operation "+
			"submitted here is the one named", collective.ErrTimeout, w.cfg.OpTimeout, peer))
	case abort.Invalid:
		buffer, arrays := "recv", "RecvCounts and RecvDispls"
		if b.Op.Load() != 0 {
			buffer, arrays = "send", "SendCounts and SendDispls"
		}
		return w.error(peer, fmt.Errorf("%w: DeviceCounts.%s[%d] lie outside of %s, which has %d elements, when the "+
			"operation runs", collective.ErrInvalidArgument, arrays, peer, buffer, int64(b.Detail.Load())))
	}
	return w.error(peer, fmt.Errorf("%w: rank %d runs another collective, or sends another size than this rank "+
		"expects: compare the calls of both ranks", collective.ErrMismatch, peer))
}

// Abort implements wire.Wire.
func (w *Wire) Abort(cause error) {
	if w.cause.Set(cause) {
		w.launcher.Raise()
	}
}

// Err implements wire.Wire.
func (w *Wire) Err() error {
	if err := w.cause.Err(); err != nil {
		return err
	}
	if err := w.launcher.Reported(w.report); err != nil {
		w.fail(err)
	}
	return w.cause.Err()
}

// fail ends the wire because the wire itself failed, and reports that to OnFailure once.
func (w *Wire) fail(err error) {
	w.Abort(err)
	w.reported.Do(func() {
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
	since, hung := time.Time{}, launcher.Stall[*wire.Op]{After: w.cfg.StallWarning}
	w.launcher.Watch(watchEvery, func() bool {
		if w.Err() != nil {
			return false
		}
		w.warnOfStall(&hung)
		l := w.brokenLink()
		if l == nil || !w.idler.busy() {
			since = time.Time{}
			return true
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) < linkGrace {
			return true
		}
		w.fail(w.broken(l))
		return false
	})
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

// warnOfStall looks once for phases that do not end.
func (w *Wire) warnOfStall(s *launcher.Stall[*wire.Op]) {
	op := w.latest.Load()
	hung := s.Look(time.Now(), op, w.idler.busy)
	if hung == 0 {
		return
	}
	slog.Warn("operations between hosts do not end, the latest being this one: work before them on their streams runs, "+
		"or a peer is not in the same operation; GOCCL_OP_TIMEOUT ends the wait and names the peer", "op", op.Name,
		"seq", op.Seq, "rank", w.rank, "for", hung.Round(time.Second), "communicator", w.cfg.Name)
}
