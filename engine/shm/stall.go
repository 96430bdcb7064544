package shm

import "log/slog"

// warn logs that the running request has waited long. A wait without a deadline may indicate a program error, such as a
// collective on one rank and a receive on another, that nothing else would report.
func (e *Engine) warn() {
	o := e.running
	peer := o.waitsFor
	if peer < 0 {
		peer = e.behind()
	}
	attrs := []any{"op", o.req.Called().String(), "seq", o.seq, "rank", e.global(e.rank),
		"waits_for", e.global(peer), "for", e.stall.After}
	if peer >= 0 {
		attrs = append(attrs, "phase", e.phase, "its_phase", e.arenas[peer].phase().Load())
	}
	if e.name != "" {
		attrs = append(attrs, "communicator", e.name)
	}
	slog.Warn("an operation waits long for a peer: is that one in the same operation? GOCCL_OP_TIMEOUT ends the wait",
		attrs...)
}
