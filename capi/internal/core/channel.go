package core

import (
	"fmt"
	"time"

	"github.com/goccl/goccl/primitive"
)

// SemaphoreStubCreate makes this side's half of a semaphore.
func SemaphoreStubCreate(conn Handle) (Handle, error) { return from(conn, primitive.NewSemaphoreStub) }

// SemaphoreStubDeserialize reads the peer's half.
func SemaphoreStubDeserialize(ctx Handle, data []byte) (Handle, error) {
	return from(ctx, func(c *primitive.Context) (*primitive.SemaphoreStub, error) {
		return c.DeserializeSemaphoreStub(data)
	})
}

// SemaphoreCreate makes a semaphore of both halves.
func SemaphoreCreate(local, remote Handle) (Handle, error) {
	var a args
	l, r := arg[*primitive.SemaphoreStub](&a, local), arg[*primitive.SemaphoreStub](&a, remote)
	return create(&a, func() (*primitive.Semaphore, error) { return primitive.NewSemaphore(l, r) })
}

// SemaphoreSignal signals the peer from the host.
func SemaphoreSignal(h Handle) error {
	return with(h, func(s *primitive.Semaphore) error { return primitive.NewHost2DeviceSemaphore(s).Signal() })
}

// SemaphorePoll consumes one signal on the host, if one has arrived.
func SemaphorePoll(h Handle) (arrived bool, err error) {
	err = with(h, func(s *primitive.Semaphore) error {
		hs, err := primitive.NewHost2HostSemaphore(s)
		if err == nil {
			arrived = hs.Poll()
		}
		return err
	})
	return arrived, err
}

// SemaphoreWait consumes one signal on the host.
func SemaphoreWait(h Handle, timeout time.Duration) error {
	return with(h, func(s *primitive.Semaphore) error {
		hs, err := primitive.NewHost2HostSemaphore(s)
		if err != nil {
			return err
		}
		ctx, cancel := stepContext(timeout)
		defer cancel()
		return hs.Wait(ctx)
	})
}

// BaseMemoryChannelCreate makes a channel that signals.
func BaseMemoryChannelCreate(sema Handle) (Handle, error) {
	return from(sema, primitive.NewBaseMemoryChannel)
}

// MemoryChannelCreate makes a channel from src to dst; packetBuffer may be 0.
func MemoryChannelCreate(sema, dst, src, packetBuffer Handle) (Handle, error) {
	var a args
	s, d, o := arg[*primitive.Semaphore](&a, sema), arg[*primitive.RegisteredMemory](&a, dst),
		arg[*primitive.RegisteredMemory](&a, src)
	var packets *primitive.RegisteredMemory
	if packetBuffer != 0 {
		packets = arg[*primitive.RegisteredMemory](&a, packetBuffer)
	}
	return create(&a, func() (*primitive.MemoryChannel, error) { return primitive.NewMemoryChannel(s, d, o, packets) })
}

// SwitchChannelCreate makes the unicast switch channel over the memories of all ranks.
func SwitchChannelCreate(comm, dev, mem Handle, tag int, timeout time.Duration) (Handle, error) {
	var a args
	c, d, m := arg[*primitive.Communicator](&a, comm), a.device(dev), arg[*primitive.RegisteredMemory](&a, mem)
	return create(&a, func() (*primitive.SwitchChannel, error) {
		ctx, cancel := stepContext(timeout)
		defer cancel()
		return primitive.NewSwitchChannel(ctx, c, d.device, m, tag)
	})
}

// FifoCreate makes a ring of triggers for kernels of dev.
func FifoCreate(ctx, dev Handle, size int) (Handle, error) {
	var a args
	c, d := arg[*primitive.Context](&a, ctx), a.device(dev)
	return create(&a, func() (*primitive.Fifo, error) { return primitive.NewFifo(c, d.device, size) })
}

// Trigger is goccl_trigger.
type Trigger struct{ Type, Size, Src, SrcOffset, Dst, DstOffset, Semaphore, Position uint64 }

// FifoPoll returns the next trigger and its position in the ring, without removing it.
func FifoPoll(h Handle) (Trigger, bool, error) {
	f, err := objectOf[*primitive.Fifo](h)
	if err != nil {
		return Trigger{}, false, err
	}
	t, position, ok := f.Poll()
	if !ok {
		return Trigger{}, false, nil
	}
	return Trigger{uint64(t.Type), uint64(t.Size), uint64(t.Src), uint64(t.SrcOffset), uint64(t.Dst), uint64(t.DstOffset),
		uint64(t.Semaphore), position}, true, nil
}

// FifoPop frees the slot of the polled trigger.
func FifoPop(h Handle) error {
	return with(h, func(f *primitive.Fifo) error {
		if _, _, ok := f.Poll(); !ok {
			return fmt.Errorf("%w: the fifo is empty: pop follows a poll that found a trigger", ErrInvalidUsage)
		}
		f.Pop()
		return nil
	})
}

// FifoSize is the number of triggers.
func FifoSize(h Handle) (int, error) {
	f, err := objectOf[*primitive.Fifo](h)
	if err != nil {
		return 0, err
	}
	return f.Size(), nil
}
