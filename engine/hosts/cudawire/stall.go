package cudawire

import (
	"log/slog"
	"time"

	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/engine/hosts/wire"
)

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
