package core

import (
	"fmt"
	"time"

	"github.com/goccl/goccl/primitive"
)

// NewSemaphoreStub makes this side's half of a semaphore.
func NewSemaphoreStub(conn Handle) (Handle, error) {
	c, err := objectOf[*primitive.Connection](conn)
	if err != nil {
		return 0, err
	}
	return addObject(primitive.NewSemaphoreStub(c))
}

// ReadSemaphoreStub reads the peer's half.
func ReadSemaphoreStub(ctx Handle, data []byte) (Handle, error) {
	c, err := objectOf[*primitive.Context](ctx)
	if err != nil {
		return 0, err
	}
	return addObject(c.DeserializeSemaphoreStub(data))
}

// NewSemaphore makes a semaphore of both halves.
func NewSemaphore(local, remote Handle) (Handle, error) {
	l, err := objectOf[*primitive.SemaphoreStub](local)
	if err != nil {
		return 0, err
	}
	r, err := objectOf[*primitive.SemaphoreStub](remote)
	if err != nil {
		return 0, err
	}
	return addObject(primitive.NewSemaphore(l, r))
}

// SemaphoreSignal signals the peer from the host.
func SemaphoreSignal(h Handle) error {
	s, err := objectOf[*primitive.Semaphore](h)
	if err != nil {
		return err
	}
	return primitive.NewHost2DeviceSemaphore(s).Signal()
}

// SemaphorePoll consumes one signal on the host, if one has arrived.
func SemaphorePoll(h Handle) (bool, error) {
	s, err := objectOf[*primitive.Semaphore](h)
	if err != nil {
		return false, err
	}
	hs, err := primitive.NewHost2HostSemaphore(s)
	if err != nil {
		return false, err
	}
	return hs.Poll(), nil
}

// SemaphoreWait consumes one signal on the host.
func SemaphoreWait(h Handle, timeout time.Duration) error {
	s, err := objectOf[*primitive.Semaphore](h)
	if err != nil {
		return err
	}
	hs, err := primitive.NewHost2HostSemaphore(s)
	if err != nil {
		return err
	}
	ctx, cancel := stepContext(timeout)
	defer cancel()
	return hs.Wait(ctx)
}

// NewBaseMemoryChannel makes a channel that signals.
func NewBaseMemoryChannel(sema Handle) (Handle, error) {
	s, err := objectOf[*primitive.Semaphore](sema)
	if err != nil {
		return 0, err
	}
	return addObject(primitive.NewBaseMemoryChannel(s))
}

// NewMemoryChannel makes a channel from src to dst; packetBuffer may be 0.
func NewMemoryChannel(sema, dst, src, packetBuffer Handle) (Handle, error) {
	s, err := objectOf[*primitive.Semaphore](sema)
	if err != nil {
		return 0, err
	}
	d, err := objectOf[*primitive.RegisteredMemory](dst)
	if err != nil {
		return 0, err
	}
	o, err := objectOf[*primitive.RegisteredMemory](src)
	if err != nil {
		return 0, err
	}
	var packets *primitive.RegisteredMemory
	if packetBuffer != 0 {
		if packets, err = objectOf[*primitive.RegisteredMemory](packetBuffer); err != nil {
			return 0, err
		}
	}
	return addObject(primitive.NewMemoryChannel(s, d, o, packets))
}

// NewSwitchChannel makes the unicast switch channel over the memories of all ranks.
func NewSwitchChannel(comm, dev, mem Handle, tag int, timeout time.Duration) (Handle, error) {
	c, err := objectOf[*primitive.Communicator](comm)
	if err != nil {
		return 0, err
	}
	d, err := devices.get(dev)
	if err != nil {
		return 0, err
	}
	m, err := objectOf[*primitive.RegisteredMemory](mem)
	if err != nil {
		return 0, err
	}
	ctx, cancel := stepContext(timeout)
	defer cancel()
	return addObject(primitive.NewSwitchChannel(ctx, c, d.device, m, tag))
}

// NewFifo makes a ring of triggers for kernels of dev.
func NewFifo(ctx, dev Handle, size int) (Handle, error) {
	c, err := objectOf[*primitive.Context](ctx)
	if err != nil {
		return 0, err
	}
	d, err := devices.get(dev)
	if err != nil {
		return 0, err
	}
	return addObject(primitive.NewFifo(c, d.device, size))
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
	f, err := objectOf[*primitive.Fifo](h)
	if err != nil {
		return err
	}
	if _, _, ok := f.Poll(); !ok {
		return fmt.Errorf("%w: the fifo is empty: pop follows a poll that found a trigger", ErrInvalidUsage)
	}
	f.Pop()
	return nil
}

// FifoSize is the number of triggers.
func FifoSize(h Handle) (int, error) {
	f, err := objectOf[*primitive.Fifo](h)
	if err != nil {
		return 0, err
	}
	return f.Size(), nil
}
