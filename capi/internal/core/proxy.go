package core

import (
	"fmt"

	"github.com/goccl/goccl/primitive"
)

// ProxyServiceCreate makes a service for kernels of d.
func ProxyServiceCreate(ctx *primitive.Context, d *Device, fifoSize int) (*primitive.ProxyService, error) {
	if fifoSize < 0 || fifoSize > 1<<20 {
		return nil, fmt.Errorf("%w: a fifo of %d triggers", ErrInvalidArgument, fifoSize)
	}
	return primitive.NewProxyService(ctx, d.device, primitive.ProxyOptions{FifoSize: fifoSize})
}

// ProxyServiceStart starts the service.
func ProxyServiceStart(s *primitive.ProxyService) error { return s.Start() }

// ProxyServiceStop carries out all requests that kernels have posted, stops the service, and returns the first error
// since the last stop.
func ProxyServiceStop(s *primitive.ProxyService) error { return s.Stop() }

// ProxyServiceAddSemaphore makes a semaphore usable by triggers.
func ProxyServiceAddSemaphore(s *primitive.ProxyService, v *primitive.Semaphore) (primitive.SemaphoreID, error) {
	return s.AddSemaphore(v)
}

// ProxyServiceBuildSemaphore builds a semaphore with the peer of conn and adds it, without waiting for the peer.
func ProxyServiceBuildSemaphore(s *primitive.ProxyService, c *primitive.Communicator, conn *primitive.Connection) (
	primitive.SemaphoreID, error) {
	return s.BuildAndAddSemaphore(c, conn)
}

// ProxyServiceAddMemory makes a memory usable by triggers.
func ProxyServiceAddMemory(s *primitive.ProxyService, m *primitive.RegisteredMemory) (primitive.MemoryID, error) {
	return s.AddMemory(m)
}

// ProxyServiceRemoveSemaphore forgets a semaphore.
func ProxyServiceRemoveSemaphore(s *primitive.ProxyService, id primitive.SemaphoreID) error {
	s.RemoveSemaphore(id)
	return nil
}

// ProxyServiceRemoveMemory forgets a memory.
func ProxyServiceRemoveMemory(s *primitive.ProxyService, id primitive.MemoryID) error {
	s.RemoveMemory(id)
	return nil
}

// BasePortChannelCreate makes a channel over a semaphore of the service.
func BasePortChannelCreate(s *primitive.ProxyService, id primitive.SemaphoreID) (*primitive.BasePortChannel, error) {
	return s.BasePortChannel(id)
}

// PortChannelCreate makes a channel from src to dst.
func PortChannelCreate(s *primitive.ProxyService, id primitive.SemaphoreID, dst, src primitive.MemoryID) (
	*primitive.PortChannel, error) {
	return s.PortChannel(id, dst, src)
}
