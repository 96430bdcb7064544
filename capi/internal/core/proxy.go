package core

import (
	"fmt"

	"github.com/goccl/goccl/primitive"
)

// NewProxyService makes a service for kernels of dev.
func NewProxyService(ctx, dev Handle, fifoSize int) (Handle, error) {
	c, err := objectOf[*primitive.Context](ctx)
	if err != nil {
		return 0, err
	}
	d, err := devices.get(dev)
	if err != nil {
		return 0, err
	}
	if fifoSize < 0 || fifoSize > 1<<20 {
		return 0, fmt.Errorf("%w: a fifo of %d triggers", ErrInvalidArgument, fifoSize)
	}
	return addObject(primitive.NewProxyService(c, d.device, primitive.ProxyOptions{FifoSize: fifoSize}))
}

// StartProxy starts the service.
func StartProxy(h Handle) error {
	s, err := objectOf[*primitive.ProxyService](h)
	if err != nil {
		return err
	}
	return s.Start()
}

// StopProxy carries out all requests that kernels have posted, stops the service, and returns the first error since the
// last stop.
func StopProxy(h Handle) error {
	s, err := objectOf[*primitive.ProxyService](h)
	if err != nil {
		return err
	}
	return s.Stop()
}

// ProxyAddSemaphore makes a semaphore usable by triggers.
func ProxyAddSemaphore(h, sema Handle) (uint32, error) {
	s, err := objectOf[*primitive.ProxyService](h)
	if err != nil {
		return 0, err
	}
	v, err := objectOf[*primitive.Semaphore](sema)
	if err != nil {
		return 0, err
	}
	id, err := s.AddSemaphore(v)
	return uint32(id), err
}

// ProxyBuildSemaphore builds a semaphore with the peer of conn and adds it, without waiting for the peer.
func ProxyBuildSemaphore(h, comm, conn Handle) (uint32, error) {
	s, err := objectOf[*primitive.ProxyService](h)
	if err != nil {
		return 0, err
	}
	c, err := objectOf[*primitive.Communicator](comm)
	if err != nil {
		return 0, err
	}
	n, err := objectOf[*primitive.Connection](conn)
	if err != nil {
		return 0, err
	}
	id, err := s.BuildAndAddSemaphore(c, n)
	return uint32(id), err
}

// ProxyAddMemory makes a memory usable by triggers.
func ProxyAddMemory(h, mem Handle) (uint32, error) {
	s, err := objectOf[*primitive.ProxyService](h)
	if err != nil {
		return 0, err
	}
	m, err := objectOf[*primitive.RegisteredMemory](mem)
	if err != nil {
		return 0, err
	}
	id, err := s.AddMemory(m)
	return uint32(id), err
}

// ProxyRemove frees the id of a memory or of a semaphore.
func ProxyRemove(h Handle, memory bool, id uint32) error {
	s, err := objectOf[*primitive.ProxyService](h)
	if err != nil {
		return err
	}
	if memory {
		s.RemoveMemory(primitive.MemoryID(id))
	} else {
		s.RemoveSemaphore(primitive.SemaphoreID(id))
	}
	return nil
}

// NewBasePortChannel makes a channel over a semaphore of the service.
func NewBasePortChannel(h Handle, id uint32) (Handle, error) {
	s, err := objectOf[*primitive.ProxyService](h)
	if err != nil {
		return 0, err
	}
	return addObject(s.BasePortChannel(primitive.SemaphoreID(id)))
}

// NewPortChannel makes a channel from src to dst.
func NewPortChannel(h Handle, id, dst, src uint32) (Handle, error) {
	s, err := objectOf[*primitive.ProxyService](h)
	if err != nil {
		return 0, err
	}
	return addObject(s.PortChannel(primitive.SemaphoreID(id), primitive.MemoryID(dst), primitive.MemoryID(src)))
}
