package nvlink

import (
	"log/slog"
	"time"
)

// warnOfStall logs that work has not ended. A kernel that waits without a deadline may indicate a program error, such
// as a collective on one rank and a receive on another, that nothing else would report. Only the kernel's own report
// names the peer, when GOCCL_OP_TIMEOUT ends the wait.
func (e *Engine) warnOfStall(seq uint64, since time.Duration) {
	attrs := []any{"op", e.latest.name().String(), "seq", seq, "rank", e.rank, "for", since.Round(time.Second)}
	if e.name != "" {
		attrs = append(attrs, "communicator", e.name)
	}
	slog.Warn("enqueued operations do not end, the latest being this one: work before them on their streams runs, or a "+
		"peer is not in the same operation; GOCCL_OP_TIMEOUT ends the wait and names the peer", attrs...)
}
