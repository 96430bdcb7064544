package primitive

import "github.com/goccl/goccl/internal/abort"

// The Go twin of goccl::SemaphoreHandle, for host kernels. Only one thread at a time may use a side, because Wait and
// Poll increment Expected without a lock.

// Signal adds one to the peer's counter and publishes this thread's earlier writes.
func (h *SemaphoreHandle) Signal() { cellAt(h.RemoteInbound).Add(1) }

// RelaxedSignal is Signal without publication. On the host both are the same and cost the same.
func (h *SemaphoreHandle) RelaxedSignal() { h.Signal() }

// Poll consumes one signal if there is one.
func (h *SemaphoreHandle) Poll() bool {
	exp := word64(h.Expected)
	target := exp.Load() + 1
	if !cellAt(h.Inbound).Reached(target) {
		return false
	}
	exp.Store(target)
	return true
}

// Wait consumes one signal and makes the peer's earlier writes visible. A wait that fails consumes nothing.
func (h *SemaphoreHandle) Wait() Status {
	exp, in := word64(h.Expected), cellAt(h.Inbound)
	target := exp.Load() + 1
	s := StatusOK
	if !in.Reached(target) {
		s = waitCell(in, func() bool { return in.Reached(target) }, h.Abort, h.Inbound, abort.WaitSemaphore)
	}
	if s == StatusOK {
		exp.Store(target)
	}
	return s
}

// RelaxedWait is Wait without visibility of the peer's writes. On the host both are the same.
func (h *SemaphoreHandle) RelaxedWait() Status { return h.Wait() }
