package primitive

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport"
)

// Semaphore lets two sides signal each other. Each side has an inbound counter, which the other side increments once
// per signal, and a private count of consumed signals. Each side makes its Semaphore from its own stub and the other's.
type Semaphore struct {
	conn   *Connection
	local  *SemaphoreStub
	remote *SemaphoreStub
	to     transport.Remote // the peer's inbound counter as the link addresses it
	handle SemaphoreHandle

	// signalMu keeps total consistent with the order of the link's signals.
	signalMu sync.Mutex
	total    uint64
}

// NewSemaphore makes this side's semaphore. remote is the peer's stub: deserialised, or the stub itself if the peer is
// in this process.
func NewSemaphore(local, remote *SemaphoreStub) (*Semaphore, error) {
	const op = "semaphore"
	switch {
	case local == nil || remote == nil:
		return nil, invalid(op, "a stub is nil")
	case local.conn == nil:
		return nil, invalid(op, "the first stub is the peer's: give the local one first")
	}
	conn := local.conn
	s := &Semaphore{conn: conn, local: local, remote: remote}
	c := conn.ctx
	ctx, cancel := c.bounded(context.Background())
	defer cancel()
	mem, off := remote.mem, int64(0)
	if mem == nil {
		mem, off = remote.token.slab.mem, remote.token.offset
	}
	to, err := mem.remote(ctx, conn)
	if err != nil {
		return nil, conn.wrap(err, op)
	}
	s.to = to.Add(uint64(off))
	abort, err := c.AbortBlock(conn.local.dev)
	if err != nil {
		return nil, conn.wrap(err, op)
	}
	s.handle = SemaphoreHandle{Inbound: local.token.inbound(), RemoteInbound: s.to.Ptr, Expected: local.token.expected(),
		Abort: abort}
	if remote.mem != nil {
		if err := c.own(s); err != nil {
			return nil, errors.Join(conn.wrap(err, op), remote.Close())
		}
	}
	return s, nil
}

// Connection returns the connection that carries the signals.
func (s *Semaphore) Connection() *Connection { return s.conn }

// DeviceHandle returns the handle for kernels that wait and signal. Over Ethernet a kernel can wait but not signal;
// signals go through a PortChannel.
func (s *Semaphore) DeviceHandle() SemaphoreHandle { return s.handle }

// kernelHandle returns the handle for channels whose kernels signal directly.
func (s *Semaphore) kernelHandle(op string) (SemaphoreHandle, error) {
	if s.handle.RemoteInbound == 0 {
		return SemaphoreHandle{}, invalid(op, "kernels cannot signal over %v: use a PortChannel", s.conn.Transport())
	}
	return s.handle, nil
}

// signal adds one to the peer's counter after all earlier writes of the connection.
func (s *Semaphore) signal() error {
	s.signalMu.Lock()
	defer s.signalMu.Unlock()
	s.total++
	return s.conn.link.Signal(s.to, s.total)
}

// Close unmaps the peer's counter and frees our own.
func (s *Semaphore) Close() error {
	s.conn.ctx.disown(s)
	var err error
	if s.remote.mem != nil {
		err = s.remote.Close()
	}
	return errors.Join(err, s.local.Close())
}

// hostSemaphore is signalled by the host.
type hostSemaphore struct{ sema *Semaphore }

// Connection returns the semaphore's connection.
func (h hostSemaphore) Connection() *Connection { return h.sema.conn }

// Signal signals the peer after all earlier writes of the connection.
func (h hostSemaphore) Signal() error { return h.sema.conn.wrap(h.sema.signal(), "signal") }

// Host2DeviceSemaphore is signalled by the host and waited for in a kernel.
type Host2DeviceSemaphore struct{ hostSemaphore }

// NewHost2DeviceSemaphore wraps a semaphore.
func NewHost2DeviceSemaphore(s *Semaphore) *Host2DeviceSemaphore {
	return &Host2DeviceSemaphore{hostSemaphore{s}}
}

// DeviceHandle returns the handle for waiting in a kernel; it cannot signal.
func (h *Host2DeviceSemaphore) DeviceHandle() SemaphoreHandle {
	d := h.sema.handle
	d.RemoteInbound = 0
	return d
}

// Host2HostSemaphore is signalled and waited for by the host. The processor must be able to access its counter: the
// connection's local endpoint is on a host device, or the transport is Ethernet.
type Host2HostSemaphore struct {
	hostSemaphore
	mu sync.Mutex // one waiter at a time increments the expected count
}

// NewHost2HostSemaphore wraps a semaphore.
func NewHost2HostSemaphore(s *Semaphore) (*Host2HostSemaphore, error) {
	if s == nil || !reachable(s.conn.local.dev) && !s.local.token.pool.key.mapped {
		return nil, invalid("host semaphore", "the counter lies in GPU memory, which the host cannot poll: use an "+
			"endpoint of a host device")
	}
	return &Host2HostSemaphore{hostSemaphore: hostSemaphore{s}}, nil
}

// Poll consumes one signal if there is one.
func (h *Host2HostSemaphore) Poll() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sema.handle.Poll()
}

// Wait consumes one signal. It returns an error after ctx or the Context's timeout, when the Context is aborted, or
// when the peer is dead; then it consumes no signal.
func (h *Host2HostSemaphore) Wait(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.sema.conn.ctx
	leave, err := c.enterWait("semaphore wait")
	if err != nil {
		return err
	}
	defer leave() // only after the last read of the counter, because Close may then unmap it
	in, exp := cellAt(h.sema.handle.Inbound), word64(h.sema.handle.Expected)
	target := exp.Load() + 1
	// Package wait has no contexts, so a canceller wakes the sleeper. The canceller also reads the counter, so it must
	// end before this wait does.
	if ctx.Done() != nil {
		woken := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			in.Wake()
			close(woken)
		})
		defer func() {
			if !stop() {
				<-woken
			}
		}()
	}
	err = wait.Until(in, func() bool { return in.Reached(target) || ctx.Err() != nil }, c.hostLimit(ctx), nil)
	switch {
	case in.Reached(target):
		exp.Store(target)
		return nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.Is(err, wait.ErrAborted):
		err = c.stopped()
	case errors.Is(err, wait.ErrTimeout):
		err = fmt.Errorf("%w: no signal within %v", ErrTimeout, c.opt.timeout)
	}
	return h.sema.conn.wrap(err, "semaphore wait")
}
