package primitive

import (
	"context"

	"github.com/goccl/goccl/device"
)

// BaseMemoryChannel signals and waits in kernels and moves no data.
type BaseMemoryChannel struct {
	sema   *Semaphore
	handle BaseMemoryChannelHandle
}

// NewBaseMemoryChannel makes a channel over a semaphore whose connection is IPC.
func NewBaseMemoryChannel(s *Semaphore) (*BaseMemoryChannel, error) {
	const op = "base memory channel"
	if s == nil {
		return nil, invalid(op, "the semaphore is nil")
	}
	h, err := s.kernelHandle(op)
	if err != nil {
		return nil, err
	}
	return &BaseMemoryChannel{sema: s, handle: BaseMemoryChannelHandle{Semaphore: h}}, nil
}

// Semaphore returns the semaphore of the channel.
func (b *BaseMemoryChannel) Semaphore() *Semaphore { return b.sema }

// DeviceHandle returns the handle for kernels.
func (b *BaseMemoryChannel) DeviceHandle() BaseMemoryChannelHandle { return b.handle }

// MemoryChannel moves data in kernels by load and store: put from local memory to the peer's, get in the other
// direction, and packets, which contain their own flags.
type MemoryChannel struct {
	sema     *Semaphore
	dst, src *RegisteredMemory
	handle   MemoryChannelHandle
}

// NewMemoryChannel makes a channel over a semaphore whose connection is IPC. dst is the peer's memory, src local
// memory. packetBuffer is local memory to which the peer writes packets, or nil; the peer's channel has it as its dst.
func NewMemoryChannel(s *Semaphore, dst, src, packetBuffer *RegisteredMemory) (*MemoryChannel, error) {
	const op = "memory channel"
	if s == nil || dst == nil || src == nil {
		return nil, invalid(op, "semaphore, destination and source must be there")
	}
	if !src.Local() || packetBuffer != nil && !packetBuffer.Local() {
		return nil, invalid(op, "source and packet buffer are local memories: swap source and destination?")
	}
	sh, err := s.kernelHandle(op)
	if err != nil {
		return nil, err
	}
	m := &MemoryChannel{sema: s, dst: dst, src: src, handle: MemoryChannelHandle{Semaphore: sh}}
	ctx, cancel := s.conn.ctx.bounded(context.Background())
	defer cancel()
	dev := s.conn.local.dev
	for _, b := range []struct {
		mem *RegisteredMemory
		at  *device.Ptr
	}{{dst, &m.handle.Dst}, {src, &m.handle.Src}, {packetBuffer, &m.handle.PacketBuffer}} {
		if b.mem == nil {
			continue
		}
		if *b.at, err = b.mem.mapOn(ctx, dev); err != nil {
			return nil, s.conn.wrap(err, op)
		}
	}
	return m, nil
}

// Semaphore returns the semaphore of the channel.
func (m *MemoryChannel) Semaphore() *Semaphore { return m.sema }

// DeviceHandle returns the handle for kernels. Kernels do no bounds checks against the memories.
func (m *MemoryChannel) DeviceHandle() MemoryChannelHandle { return m.handle }
