package core

import (
	"fmt"
	"time"

	"github.com/goccl/goccl/primitive"
)

// NewSemaphoreStub makes this side's half of a semaphore.
func NewSemaphoreStub(conn Handle) (Handle, error) { return from(conn, primitive.NewSemaphoreStub) }

// ReadSemaphoreStub reads the peer's half.
func ReadSemaphoreStub(ctx Handle, data []byte) (Handle, error) {
	return from(ctx, func(c *primitive.Context) (*primitive.SemaphoreStub, error) {
		return c.DeserializeSemaphoreStub(data)
	})
}

// NewSemaphore makes a semaphore of both halves.
func NewSemaphore(local, remote Handle) (Handle, error) {
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

// NewBaseMemoryChannel makes a channel that signals.
func NewBaseMemoryChannel(sema Handle) (Handle, error) {
	return from(sema, primitive.NewBaseMemoryChannel)
}

// NewMemoryChannel makes a channel from src to dst; packetBuffer may be 0.
func NewMemoryChannel(sema, dst, src, packetBuffer Handle) (Handle, error) {
	var a args
	s, d, o := arg[*primitive.Semaphore](&a, sema), arg[*primitive.RegisteredMemory](&a, dst),
		arg[*primitive.RegisteredMemory](&a, src)
	var packets *primitive.RegisteredMemory
	if packetBuffer != 0 {
		packets = arg[*primitive.RegisteredMemory](&a, packetBuffer)
	}
	return create(&a, func() (*primitive.MemoryChannel, error) { return primitive.NewMemoryChannel(s, d, o, packets) })
}

// NewSwitchChannel makes the unicast switch channel over the memories of all ranks.
func NewSwitchChannel(comm, dev, mem Handle, tag int, timeout time.Duration) (Handle, error) {
	var a args
	c, d, m := arg[*primitive.Communicator](&a, comm), a.device(dev), arg[*primitive.RegisteredMemory](&a, mem)
	return create(&a, func() (*primitive.SwitchChannel, error) {
		ctx, cancel := stepContext(timeout)
		defer cancel()
		return primitive.NewSwitchChannel(ctx, c, d.device, m, tag)
	})
}

// NewFifo makes a ring of triggers for kernels of dev.
func NewFifo(ctx, dev Handle, size int) (Handle, error) {
	var a args
	c, d := arg[*primitive.Context](&a, ctx), a.device(dev)
	return create(&a, func() (*primitive.Fifo, error) { return primitive.NewFifo(c, d.device, size) })
}

// FifoPoll returns the next trigger and its position in the ring, without removing it.
func FifoPoll(h Handle) (t primitive.Trigger, position uint64, ok bool, err error) {
	f, err := objectOf[*primitive.Fifo](h)
	if err != nil {
		return t, 0, false, err
	}
	t, position, ok = f.Poll()
	return t, position, ok, nil
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
