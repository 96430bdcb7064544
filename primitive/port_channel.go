package primitive

import (
	"context"
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/abort"
)

// BasePortChannel lets kernels request transfers from the proxy, between memories given by id. Between GPUs of a host,
// kernels signal directly while every earlier request over the connection is flushed.
type BasePortChannel struct {
	service *ProxyService
	sema    *Semaphore
	handle  BasePortChannelHandle
}

// PortChannel is a BasePortChannel with a fixed destination and source. Kernels that may signal directly also store
// small puts themselves.
type PortChannel struct {
	BasePortChannel
	full PortChannelHandle
}

// BasePortChannel makes a channel over a semaphore of the service. It waits until the semaphore is built, at most the
// Context's timeout.
func (s *ProxyService) BasePortChannel(id SemaphoreID) (*BasePortChannel, error) {
	const op = "base port channel"
	ctx, cancel := s.ctx.bounded(context.Background())
	defer cancel()
	sema, err := s.Semaphore(ctx, id)
	if err != nil {
		return nil, s.ctx.wrap(err, op, NoRank)
	}
	e := entry(&s.semaphores, uint32(id))
	s.ctx.waits(e.flush, sema.conn)
	h := BasePortChannelHandle{Semaphore: sema.handle, Fifo: s.proxy.fifo.DeviceHandle(), FlushDone: e.flush.inbound(),
		SemaphoreID: uint32(id)}
	if h.Order, err = s.order(sema.conn); err != nil {
		return nil, sema.conn.wrap(err, op)
	}
	if h.Order == 0 {
		h.Semaphore.RemoteInbound = 0
	}
	return &BasePortChannel{service: s, sema: sema, handle: h}, nil
}

// order returns the words that keep direct operations of kernels over conn in order with the proxy, or 0 if the kernels
// cannot address the peer's memory.
func (s *ProxyService) order(conn *Connection) (device.Ptr, error) {
	if conn.Transport() != IPC || reachable(s.dev) || conn.local.dev != s.dev {
		return 0, nil
	}
	pool, err := s.ctx.tokenPool(s.dev, false)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.orders[conn]
	if t == nil {
		if t, err = pool.get(s.ctx); err != nil {
			return 0, err
		}
		s.orders[conn] = t
	}
	return t.ptr, nil
}

// PortChannel makes a channel from src, local memory, to dst, the peer's. It maps the memory in advance of the first
// put.
func (s *ProxyService) PortChannel(id SemaphoreID, dst, src MemoryID) (*PortChannel, error) {
	const op = "port channel"
	b, err := s.BasePortChannel(id)
	if err != nil {
		return nil, err
	}
	to, from := entry(&s.memories, uint32(dst)), entry(&s.memories, uint32(src))
	if to == nil || from == nil {
		return nil, invalid(op, "the service has no memory %d or no memory %d", dst, src)
	}
	conn := b.sema.conn
	ctx, cancel := s.ctx.bounded(context.Background())
	defer cancel()
	at, err := to.mem.remote(ctx, conn)
	if err != nil {
		return nil, conn.wrap(fmt.Errorf("destination %d: %w", dst, err), op)
	}
	data, err := from.mem.mapOn(ctx, conn.local.dev)
	if err != nil {
		return nil, conn.wrap(fmt.Errorf("source %d: %w", src, err), op)
	}
	h := PortChannelHandle{BasePortChannelHandle: b.handle, Dst: uint32(dst), Src: uint32(src)}
	if h.Order != 0 {
		h.DstData, h.SrcData, h.DstSize, h.SrcSize = at.Ptr, data, uint64(to.mem.size), uint64(from.mem.size)
	}
	return &PortChannel{BasePortChannel: *b, full: h}, nil
}

// Semaphore returns the semaphore of the channel.
func (b *BasePortChannel) Semaphore() *Semaphore { return b.sema }

// DeviceHandle returns the handle for kernels.
func (b *BasePortChannel) DeviceHandle() BasePortChannelHandle { return b.handle }

// DeviceHandle returns the handle for kernels.
func (p *PortChannel) DeviceHandle() PortChannelHandle { return p.full }

// The Go twins of goccl::BasePortChannelHandle and goccl::PortChannelHandle, for host kernels. Calls are asynchronous
// unless they flush. The requests of one thread are executed in order.

// PutTo copies size bytes of memory src to the peer's memory dst.
func (h *BasePortChannelHandle) PutTo(dst MemoryID, dstOffset uint64, src MemoryID, srcOffset, size uint64) Status {
	return h.push(TriggerData, dst, dstOffset, src, srcOffset, size)
}

// Signal signals the peer after every earlier put of this channel.
func (h *BasePortChannelHandle) Signal() Status { return h.push(TriggerFlag, 0, 0, 0, 0, 0) }

// PutToWithSignal is PutTo and Signal in one trigger.
func (h *BasePortChannelHandle) PutToWithSignal(dst MemoryID, dstOffset uint64, src MemoryID, srcOffset,
	size uint64) Status {
	return h.push(TriggerData|TriggerFlag, dst, dstOffset, src, srcOffset, size)
}

// PutToWithSignalAndFlush also waits until the source may be reused.
func (h *BasePortChannelHandle) PutToWithSignalAndFlush(dst MemoryID, dstOffset uint64, src MemoryID, srcOffset,
	size uint64) Status {
	return h.push(TriggerData|TriggerFlag|TriggerSync, dst, dstOffset, src, srcOffset, size)
}

// Flush waits until the sources of every earlier put of this channel may be reused.
func (h *BasePortChannelHandle) Flush() Status { return h.push(TriggerSync, 0, 0, 0, 0, 0) }

// Poll consumes one signal of the peer if there is one.
func (h *BasePortChannelHandle) Poll() bool { return h.Semaphore.Poll() }

// Wait consumes one signal of the peer.
func (h *BasePortChannelHandle) Wait() Status { return h.Semaphore.Wait() }

// push pushes a trigger. With TriggerSync it waits until the trigger has been executed.
func (h *BasePortChannelHandle) push(t TriggerType, dst MemoryID, dstOffset uint64, src MemoryID, srcOffset,
	size uint64) Status {
	pos, s := h.Fifo.Push(Trigger{Type: t, Size: size, Src: src, Dst: dst, SrcOffset: srcOffset, DstOffset: dstOffset,
		Semaphore: SemaphoreID(h.SemaphoreID)})
	if s != StatusOK || t&TriggerSync == 0 {
		return s
	}
	done := cellAt(h.FlushDone)
	return waitCell(done, func() bool { return done.Reached(pos + 1) }, h.Fifo.Abort, h.FlushDone, abort.WaitFlush)
}

// Put copies size bytes of the source at srcOffset to the destination at dstOffset.
func (h *PortChannelHandle) Put(dstOffset, srcOffset, size uint64) Status {
	return h.PutTo(MemoryID(h.Dst), dstOffset, MemoryID(h.Src), srcOffset, size)
}

// PutWithSignal is Put and Signal in one trigger.
func (h *PortChannelHandle) PutWithSignal(dstOffset, srcOffset, size uint64) Status {
	return h.PutToWithSignal(MemoryID(h.Dst), dstOffset, MemoryID(h.Src), srcOffset, size)
}

// PutWithSignalAndFlush also waits until the source may be reused.
func (h *PortChannelHandle) PutWithSignalAndFlush(dstOffset, srcOffset, size uint64) Status {
	return h.PutToWithSignalAndFlush(MemoryID(h.Dst), dstOffset, MemoryID(h.Src), srcOffset, size)
}
