package goccl

import (
	"context"

	"github.com/goccl/goccl/device"
)

// Drain waits until the work that this rank has enqueued so far is over, whatever streams it is on, or ctx ends, and returns the error that this work
// met. What went wrong since is AsyncError's.
func (c *Comm) Drain(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil
	}
	return c.drain(ctx)
}

// drain is called under mu. Registered algorithms on the host device are waited for by their streams.
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

// remember notes the stream of a registered algorithm on the host device, whose engine does not know of it. It is called under mu.
func (c *Comm) remember(s device.Stream) {
	if c.dev.ID().Kind != device.Host || s.Raw() == 0 || c.extra[s.Raw()] != nil {
		return
	}
	if c.extra == nil {
		c.extra = map[uintptr]device.Stream{}
	}
	if own, err := s.Device().WrapStream(s.Raw()); err == nil { // the caller may close its handle
		c.extra[s.Raw()] = own
	}
}
