package nvlink

import (
	"log/slog"
	"time"

	"github.com/goccl/goccl/collective"
)

// stall detects work that does not end. A kernel that waits without a deadline may indicate a program error, such as a
// collective on one rank and a receive on another, that nothing else would report. Only the kernel's own report names
// the peer, when GOCCL_OP_TIMEOUT ends the wait.
//
// Work counts as not ended if the rank was never seen idle since the latest submission. The check is rare because it
// calls the driver.
type stall struct {
	after  time.Duration
	name   string
	looked time.Time // time of the last check
	seq    uint64    // latest submission at that check
	since  time.Time // when seq was first seen; moves on while idle
	said   bool      // whether seq was reported
}

// lookEvery is the time between checks, unless the warning is due sooner.
const lookEvery = 5 * time.Second

func (w *stall) look(e *Engine) {
	now := time.Now()
	if w.after <= 0 || now.Sub(w.looked) < min(lookEvery, w.after/4) {
		return
	}
	w.looked = now
	if seq := e.abort.seq.Load(); seq != w.seq {
		*w = stall{after: w.after, name: w.name, looked: now, seq: seq, since: now}
		return
	}
	if w.said || w.seq == 0 {
		return
	}
	if !e.unended() {
		w.since = now
		return
	}
	if now.Sub(w.since) < w.after {
		return
	}
	w.said = true
	attrs := []any{"op", collective.Collective(e.abort.op.Load()).String(), "seq", w.seq, "rank", e.rank, "for",
		now.Sub(w.since).Round(time.Second)}
	if w.name != "" {
		attrs = append(attrs, "communicator", w.name)
	}
	slog.Warn("enqueued operations do not end, the latest being this one: work before them on their streams runs, or a "+
		"peer is not in the same operation; GOCCL_OP_TIMEOUT would end the wait and name the peer", attrs...)
}

// unended reports whether enqueued work has not ended.
func (e *Engine) unended() bool {
	e.gate.RLock()
	defer e.gate.RUnlock()
	if e.freed {
		return false
	}
	idle, err := e.order.Idle()
	return err == nil && !idle
}
