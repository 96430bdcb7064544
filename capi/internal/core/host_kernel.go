package core

import (
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/primitive"
)

// ChannelOp is an operation of a kernel on a channel's handle.
type ChannelOp uint32

// The operations. a is the target offset, b the origin offset, size is in bytes; flag is a packet epoch.
const (
	OpSignal ChannelOp = iota + 1
	OpWait
	OpPut
	OpGet
	OpPutWithSignal
	OpPutWithSignalAndFlush
	OpFlush
	OpPutPackets
	OpUnpackPackets
	OpPoll
	OpRelaxedSignal
	OpRelaxedWait
)

// RunChannel performs an operation of a host-device kernel on the channel h, on the calling thread, as a kernel of one
// thread. Other languages write kernels for the host device with it. It refuses a memory channel whose memory is on a
// GPU, where kernels are CUDA kernels.
func RunChannel(h Handle, op ChannelOp, a, b, size uint64, flag uint32) (polled bool, err error) {
	v, err := objects.get(h)
	if err != nil {
		return false, err
	}
	s := primitive.StatusOK
	switch c := v.(type) {
	case *primitive.BaseMemoryChannel:
		if err := onHost(c.Semaphore()); err != nil {
			return false, err
		}
		k := c.DeviceHandle()
		switch op {
		case OpSignal:
			k.Signal()
		case OpRelaxedSignal:
			k.RelaxedSignal()
		case OpWait:
			s = k.Wait()
		case OpRelaxedWait:
			s = k.RelaxedWait()
		case OpPoll:
			return k.Poll(), nil
		default:
			return false, notOf(op, v)
		}
	case *primitive.MemoryChannel:
		if err := onHost(c.Semaphore()); err != nil {
			return false, err
		}
		k := c.DeviceHandle()
		switch op {
		case OpSignal:
			k.Signal()
		case OpRelaxedSignal:
			k.RelaxedSignal()
		case OpWait:
			s = k.Wait()
		case OpRelaxedWait:
			s = k.RelaxedWait()
		case OpPoll:
			return k.Poll(), nil
		case OpPut:
			k.Put(int64(a), int64(b), int64(size), 0, 1)
		case OpGet:
			k.Get(int64(a), int64(b), int64(size), 0, 1)
		case OpPutWithSignal:
			k.PutWithSignal(int64(a), int64(b), int64(size))
		case OpPutPackets:
			k.PutPackets(primitive.LL16, int64(a), int64(b), int64(size), 0, 1, flag)
		case OpUnpackPackets:
			s = k.UnpackPackets(primitive.LL16, int64(a), int64(b), int64(size), 0, 1, flag)
		default:
			return false, notOf(op, v)
		}
	case *primitive.PortChannel:
		if err := onHost(c.Semaphore()); err != nil {
			return false, err
		}
		k := c.DeviceHandle()
		switch op {
		case OpSignal:
			s = k.Signal()
		case OpWait:
			s = k.Wait()
		case OpPoll:
			return k.Poll(), nil
		case OpPut:
			s = k.Put(a, b, size)
		case OpPutWithSignal:
			s = k.PutWithSignal(a, b, size)
		case OpPutWithSignalAndFlush:
			s = k.PutWithSignalAndFlush(a, b, size)
		case OpFlush:
			s = k.Flush()
		default:
			return false, notOf(op, v)
		}
	default:
		return false, fmt.Errorf("%w: a %s has no operations for kernels here", ErrInvalidArgument, nameOf(v))
	}
	if s == primitive.StatusOK {
		return true, nil
	}
	return false, fmt.Errorf("kernel of the host device: %w", s.Err())
}

func onHost(s *primitive.Semaphore) error {
	if id := s.Connection().Device().ID(); id.Kind != device.Host {
		return fmt.Errorf("%w: the channel belongs to %v, whose kernels are CUDA's: launch one with the channel's device handle", ErrInvalidUsage, id)
	}
	return nil
}

func notOf(op ChannelOp, v any) error {
	return fmt.Errorf("%w: a %s has no operation %d", ErrInvalidArgument, nameOf(v), op)
}
