package cudawire

import (
	"log/slog"
	"time"

	"github.com/goccl/goccl/engine/hosts/wire"
)

// stall detects phases that do not end: those of a wire that was never seen idle since the latest submission. A look
// calls the driver, so looks are rare.
type stall struct {
	after  time.Duration
	looked time.Time
	op     *wire.Op  // the latest at that look
	since  time.Time // when op was first seen; moves on while idle
	said   bool
}

// lookEvery is the time between looks, unless the warning is due sooner.
const lookEvery = 5 * time.Second

// look returns how long op, the latest submission, has not ended, once it is time for the warning, else 0.
func (s *stall) look(now time.Time, op *wire.Op, busy func() bool) time.Duration {
	if s.after <= 0 || now.Sub(s.looked) < min(lookEvery, s.after/4) {
		return 0
	}
	s.looked = now
	if op != s.op {
		s.op, s.since, s.said = op, now, false
		return 0
	}
	if s.said || s.op == nil {
		return 0
	}
	if !busy() {
		s.since = now
		return 0
	}
	if now.Sub(s.since) < s.after {
		return 0
	}
	s.said = true
	return now.Sub(s.since)
}

// warnOfStall looks once.
func (w *Wire) warnOfStall(s *stall) {
	op := w.abort.op.Load()
	hung := s.look(time.Now(), op, w.idler.busy)
	if hung == 0 {
		return
	}
	slog.Warn("operations between hosts do not end, the latest being this one: work before them on their streams runs, "+
		"or a peer is not in the same operation; GOCCL_OP_TIMEOUT would end the wait and name the peer", "op", op.Name,
		"seq", op.Seq, "rank", w.rank, "for", hung.Round(time.Second), "communicator", w.cfg.Name)
}
