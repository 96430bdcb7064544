package goccl

import (
	"context"

	"github.com/goccl/goccl/device"
)

// Drain waits until the work that this rank has enqueued so far has ended, on any stream, or until ctx ends. It returns
// the error of this work. AsyncError reports later errors.
func (c *Comm) Drain(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil
	}
	return c.drain(ctx)
}

// drain waits for the enqueued work. For registered algorithms on the host device it synchronizes their streams. The
// caller holds mu.
func (c *Comm) drain(ctx context.Context) error {
	err := c.engine.Drain(ctx)
	for raw, s := range c.extra {
		if err == nil {
			err = s.Synchronize(ctx)
		}
		if err == nil {
			delete(c.extra, raw)
		}
	}
	return err
}

// remember records the stream of a registered algorithm on the host device, because the engine does not know it. The
// caller holds mu.
func (c *Comm) remember(s device.Stream) {
	if c.dev.ID().Kind != device.Host || s.Raw() == 0 || c.extra[s.Raw()] != nil {
		return
	}
	if c.extra == nil {
		c.extra = map[uintptr]device.Stream{}
	}
	if own, err := s.Device().WrapStream(s.Raw()); err == nil { // a separate handle: the caller may close its own
		c.extra[s.Raw()] = own
	}
}
