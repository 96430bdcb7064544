package core

import (
	"context"
	"fmt"

	"github.com/goccl/goccl/primitive"
)

// SemaphoreSignal signals the peer from the host.
func SemaphoreSignal(s *primitive.Semaphore) error {
	return primitive.NewHost2DeviceSemaphore(s).Signal()
}

// SemaphorePoll consumes one signal on the host, if one has arrived.
func SemaphorePoll(s *primitive.Semaphore) (arrived bool, err error) {
	hs, err := primitive.NewHost2HostSemaphore(s)
	if err != nil {
		return false, err
	}
	return hs.Poll(), nil
}

// SemaphoreWait consumes one signal on the host.
func SemaphoreWait(ctx context.Context, s *primitive.Semaphore) error {
	hs, err := primitive.NewHost2HostSemaphore(s)
	if err != nil {
		return err
	}
	return hs.Wait(ctx)
}

// MemoryChannelCreate makes a channel from src to dst; packetBuffer may be 0.
func MemoryChannelCreate(s *primitive.Semaphore, dst, src *primitive.RegisteredMemory, packetBuffer Handle) (
	channel *primitive.MemoryChannel, err error) {
	var packets *primitive.RegisteredMemory
	if packetBuffer != 0 {
		if packets, err = Find[*primitive.RegisteredMemory](packetBuffer); err != nil {
			return nil, err
		}
	}
	return primitive.NewMemoryChannel(s, dst, src, packets)
}

// FifoPoll returns the next trigger and its position in the ring, without removing it.
func FifoPoll(f *primitive.Fifo) (Trigger, bool, error) {
	t, position, ok := f.Poll()
	if !ok {
		return Trigger{}, false, nil
	}
	return Trigger{uint64(t.Type), uint64(t.Size), uint64(t.Src), uint64(t.SrcOffset), uint64(t.Dst), uint64(t.DstOffset),
		uint64(t.Semaphore), position}, true, nil
}

// FifoPop frees the slot of the polled trigger.
func FifoPop(f *primitive.Fifo) error {
	if _, _, ok := f.Poll(); !ok {
		return fmt.Errorf("%w: the fifo is empty: pop follows a poll that found a trigger", ErrInvalidUsage)
	}
	f.Pop()
	return nil
}
