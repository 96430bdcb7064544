package primitive

// The Go twin of goccl::SemaphoreHandle, for host kernels. One thread at a time uses a side; Wait and Poll count up Expected without a lock.

// Signal adds one to the peer's counter and publishes this thread's earlier writes.
func (h *SemaphoreHandle) Signal() { cellAt(h.RemoteInbound).Add(1) }

// RelaxedSignal is Signal without publication. On the host both cost the same and are the same.
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

// Wait consumes one signal, and what the peer wrote before it is visible then. A wait that gives up consumes nothing.
func (h *SemaphoreHandle) Wait() Status {
	exp, in := word64(h.Expected), cellAt(h.Inbound)
	target := exp.Load() + 1
	s := StatusOK
	if !in.Reached(target) {
		s = waitCell(in, func() bool { return in.Reached(target) }, h.Abort, h.Inbound, waitSemaphore)
	}
	if s == StatusOK {
		exp.Store(target)
	}
	return s
}

// RelaxedWait is Wait without visibility of the peer's writes. On the host both are the same.
func (h *SemaphoreHandle) RelaxedWait() Status { return h.Wait() }
