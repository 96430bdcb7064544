package core

import (
	"fmt"

	"github.com/goccl/goccl/primitive"
)

// ProxyServiceCreate makes a service for kernels of dev.
func ProxyServiceCreate(ctx, dev Handle, fifoSize int) (Handle, error) {
	var a args
	c, d := arg[*primitive.Context](&a, ctx), a.device(dev)
	return create(&a, func() (*primitive.ProxyService, error) {
		if fifoSize < 0 || fifoSize > 1<<20 {
			return nil, fmt.Errorf("%w: a fifo of %d triggers", ErrInvalidArgument, fifoSize)
		}
		return primitive.NewProxyService(c, d.device, primitive.ProxyOptions{FifoSize: fifoSize})
	})
}

// ProxyServiceStart starts the service.
func ProxyServiceStart(h Handle) error { return with(h, (*primitive.ProxyService).Start) }

// ProxyServiceStop carries out all requests that kernels have posted, stops the service, and returns the first error
// since the last stop.
func ProxyServiceStop(h Handle) error { return with(h, (*primitive.ProxyService).Stop) }

// ProxyServiceAddSemaphore makes a semaphore usable by triggers.
func ProxyServiceAddSemaphore(h, sema Handle) (primitive.SemaphoreID, error) {
	var a args
	s, v := arg[*primitive.ProxyService](&a, h), arg[*primitive.Semaphore](&a, sema)
	return tell(&a, func() (primitive.SemaphoreID, error) { return s.AddSemaphore(v) })
}

// ProxyServiceBuildSemaphore builds a semaphore with the peer of conn and adds it, without waiting for the peer.
func ProxyServiceBuildSemaphore(h, comm, conn Handle) (primitive.SemaphoreID, error) {
	var a args
	s, c, n := arg[*primitive.ProxyService](&a, h), arg[*primitive.Communicator](&a, comm),
		arg[*primitive.Connection](&a, conn)
	return tell(&a, func() (primitive.SemaphoreID, error) { return s.BuildAndAddSemaphore(c, n) })
}

// ProxyServiceAddMemory makes a memory usable by triggers.
func ProxyServiceAddMemory(h, mem Handle) (primitive.MemoryID, error) {
	var a args
	s, m := arg[*primitive.ProxyService](&a, h), arg[*primitive.RegisteredMemory](&a, mem)
	return tell(&a, func() (primitive.MemoryID, error) { return s.AddMemory(m) })
}

// ProxyServiceRemoveSemaphore forgets a semaphore.
func ProxyServiceRemoveSemaphore(h Handle, id uint32) error {
	return with(h, func(s *primitive.ProxyService) error {
		s.RemoveSemaphore(primitive.SemaphoreID(id))
		return nil
	})
}

// ProxyServiceRemoveMemory forgets a memory.
func ProxyServiceRemoveMemory(h Handle, id uint32) error {
	return with(h, func(s *primitive.ProxyService) error {
		s.RemoveMemory(primitive.MemoryID(id))
		return nil
	})
}

// BasePortChannelCreate makes a channel over a semaphore of the service.
func BasePortChannelCreate(h Handle, id uint32) (Handle, error) {
	return from(h, func(s *primitive.ProxyService) (*primitive.BasePortChannel, error) {
		return s.BasePortChannel(primitive.SemaphoreID(id))
	})
}

// PortChannelCreate makes a channel from src to dst.
func PortChannelCreate(h Handle, id, dst, src uint32) (Handle, error) {
	return from(h, func(s *primitive.ProxyService) (*primitive.PortChannel, error) {
		return s.PortChannel(primitive.SemaphoreID(id), primitive.MemoryID(dst), primitive.MemoryID(src))
	})
}
