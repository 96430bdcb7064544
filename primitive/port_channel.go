package primitive

import (
	"context"
	"fmt"

	"github.com/goccl/goccl/internal/abort"
)

// BasePortChannel lets kernels request transfers from the proxy, between memories given by id.
type BasePortChannel struct {
	service *ProxyService
	sema    *Semaphore
	handle  BasePortChannelHandle
}

// PortChannel is a BasePortChannel with a fixed destination and source.
type PortChannel struct {
	BasePortChannel
	dst, src uint32
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
	h := sema.handle
	h.RemoteInbound = 0 // signals go through the proxy
	return &BasePortChannel{service: s, sema: sema, handle: BasePortChannelHandle{
		Semaphore: h, Fifo: s.proxy.fifo.DeviceHandle(), FlushDone: e.flush.inbound(), SemaphoreID: uint32(id)}}, nil
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
	if _, err := to.mem.remote(ctx, conn); err != nil {
		return nil, conn.wrap(fmt.Errorf("destination %d: %w", dst, err), op)
	}
	if _, err := from.mem.mapOn(ctx, conn.local.dev); err != nil {
		return nil, conn.wrap(fmt.Errorf("source %d: %w", src, err), op)
	}
	return &PortChannel{BasePortChannel: *b, dst: uint32(dst), src: uint32(src)}, nil
}

// Semaphore returns the semaphore of the channel.
func (b *BasePortChannel) Semaphore() *Semaphore { return b.sema }

// DeviceHandle returns the handle for kernels.
func (b *BasePortChannel) DeviceHandle() BasePortChannelHandle { return b.handle }

// DeviceHandle returns the handle for kernels.
func (p *PortChannel) DeviceHandle() PortChannelHandle {
	return PortChannelHandle{BasePortChannelHandle: p.handle, Dst: p.dst, Src: p.src}
}

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
