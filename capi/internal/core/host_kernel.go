package core

import (
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/primitive"
)

// ChannelOp is an operation of a kernel on a channel's handle.
type ChannelOp uint32

// ChannelRun performs an operation of a host-device kernel on the channel h: a is the target offset, b the origin
// offset, size is in bytes, flag a packet epoch. It runs on the calling thread, as a kernel of one thread. Other
// languages write kernels for the host device with it. It refuses a memory channel whose memory is on a GPU, where
// kernels are CUDA kernels.
func ChannelRun(h Handle, op ChannelOp, a, b, size uint64, flag uint32) (polled bool, err error) {
	v, err := objects.get(h)
	if err != nil {
		return false, err
	}
	channel, ok := v.(interface{ Semaphore() *primitive.Semaphore })
	if !ok {
		return false, fmt.Errorf("%w: a %s has no operations for kernels here", ErrInvalidArgument, nameOf(v))
	}
	if id := channel.Semaphore().Connection().Device().ID(); id.Kind != device.Host {
		return false, fmt.Errorf("%w: the channel belongs to %v, whose kernels are CUDA's: launch one with the channel's "+
			"device handle", ErrInvalidUsage, id)
	}
	s, polled, known := primitive.StatusOK, true, false
	switch c := v.(type) {
	case *primitive.BaseMemoryChannel:
		k := c.DeviceHandle()
		s, polled, known = runSemaphore(&k.Semaphore, op)
	case *primitive.MemoryChannel:
		k := c.DeviceHandle()
		if s, polled, known = runSemaphore(&k.Semaphore, op); !known {
			s, known = runMemory(&k, op, int64(a), int64(b), int64(size), flag)
			polled = true
		}
	case *primitive.PortChannel:
		k := c.DeviceHandle()
		s, polled, known = runPort(&k, op, a, b, size)
	}
	if !known {
		return false, fmt.Errorf("%w: a %s has no operation %d", ErrInvalidArgument, nameOf(v), op)
	}
	if s == primitive.StatusOK {
		return polled, nil
	}
	return false, fmt.Errorf("kernel of the host device: %w", s.Err())
}

// runSemaphore performs the operations that every memory channel has.
func runSemaphore(h *primitive.SemaphoreHandle, op ChannelOp) (s primitive.Status, polled, known bool) {
	s, polled = primitive.StatusOK, true
	switch op {
	case OpSignal:
		h.Signal()
	case OpRelaxedSignal:
		h.RelaxedSignal()
	case OpWait:
		s = h.Wait()
	case OpRelaxedWait:
		s = h.RelaxedWait()
	case OpPoll:
		polled = h.Poll()
	default:
		return s, false, false
	}
	return s, polled, true
}

// runMemory performs the operations that move data.
func runMemory(k *primitive.MemoryChannelHandle, op ChannelOp, a, b, size int64, flag uint32) (s primitive.Status,
	known bool) {
	s = primitive.StatusOK
	switch op {
	case OpPut:
		k.Put(a, b, size, 0, 1)
	case OpGet:
		k.Get(a, b, size, 0, 1)
	case OpPutWithSignal:
		k.PutWithSignal(a, b, size)
	case OpPutPackets:
		k.PutPackets(primitive.LL16, a, b, size, 0, 1, flag)
	case OpUnpackPackets:
		s = k.UnpackPackets(primitive.LL16, a, b, size, 0, 1, flag)
	default:
		return s, false
	}
	return s, true
}

func runPort(k *primitive.PortChannelHandle, op ChannelOp, a, b, size uint64) (s primitive.Status, polled, known bool) {
	s, polled = primitive.StatusOK, true
	switch op {
	case OpSignal:
		s = k.Signal()
	case OpWait:
		s = k.Wait()
	case OpPoll:
		polled = k.Poll()
	case OpPut:
		s = k.Put(a, b, size)
	case OpPutWithSignal:
		s = k.PutWithSignal(a, b, size)
	case OpPutWithSignalAndFlush:
		s = k.PutWithSignalAndFlush(a, b, size)
	case OpFlush:
		s = k.Flush()
	default:
		return s, false, false
	}
	return s, polled, true
}
