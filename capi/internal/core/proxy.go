package core

import (
	"fmt"

	"github.com/goccl/goccl/primitive"
)

// NewProxyService makes a service for kernels of dev.
func NewProxyService(ctx, dev Handle, fifoSize int) (Handle, error) {
	var a args
	c, d := arg[*primitive.Context](&a, ctx), a.device(dev)
	return create(&a, func() (*primitive.ProxyService, error) {
		if fifoSize < 0 || fifoSize > 1<<20 {
			return nil, fmt.Errorf("%w: a fifo of %d triggers", ErrInvalidArgument, fifoSize)
		}
		return primitive.NewProxyService(c, d.device, primitive.ProxyOptions{FifoSize: fifoSize})
	})
}

// StartProxy starts the service.
func StartProxy(h Handle) error { return with(h, (*primitive.ProxyService).Start) }

// StopProxy carries out all requests that kernels have posted, stops the service, and returns the first error since the
// last stop.
func StopProxy(h Handle) error { return with(h, (*primitive.ProxyService).Stop) }

// ProxyAddSemaphore makes a semaphore usable by triggers.
func ProxyAddSemaphore(h, sema Handle) (primitive.SemaphoreID, error) {
	var a args
	s, v := arg[*primitive.ProxyService](&a, h), arg[*primitive.Semaphore](&a, sema)
	return tell(&a, func() (primitive.SemaphoreID, error) { return s.AddSemaphore(v) })
}

// ProxyBuildSemaphore builds a semaphore with the peer of conn and adds it, without waiting for the peer.
func ProxyBuildSemaphore(h, comm, conn Handle) (primitive.SemaphoreID, error) {
	var a args
	s, c, n := arg[*primitive.ProxyService](&a, h), arg[*primitive.Communicator](&a, comm),
		arg[*primitive.Connection](&a, conn)
	return tell(&a, func() (primitive.SemaphoreID, error) { return s.BuildAndAddSemaphore(c, n) })
}

// ProxyAddMemory makes a memory usable by triggers.
func ProxyAddMemory(h, mem Handle) (primitive.MemoryID, error) {
	var a args
	s, m := arg[*primitive.ProxyService](&a, h), arg[*primitive.RegisteredMemory](&a, mem)
	return tell(&a, func() (primitive.MemoryID, error) { return s.AddMemory(m) })
}

// ProxyRemove frees the id of a memory or of a semaphore.
func ProxyRemove(h Handle, memory bool, id uint32) error {
	return with(h, func(s *primitive.ProxyService) error {
		if memory {
			s.RemoveMemory(primitive.MemoryID(id))
		} else {
			s.RemoveSemaphore(primitive.SemaphoreID(id))
		}
		return nil
	})
}

// NewBasePortChannel makes a channel over a semaphore of the service.
func NewBasePortChannel(h Handle, id uint32) (Handle, error) {
	return from(h, func(s *primitive.ProxyService) (*primitive.BasePortChannel, error) {
		return s.BasePortChannel(primitive.SemaphoreID(id))
	})
}

// NewPortChannel makes a channel from src to dst.
func NewPortChannel(h Handle, id, dst, src uint32) (Handle, error) {
	return from(h, func(s *primitive.ProxyService) (*primitive.PortChannel, error) {
		return s.PortChannel(primitive.SemaphoreID(id), primitive.MemoryID(dst), primitive.MemoryID(src))
	})
}
