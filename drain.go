package goccl

import (
	"context"
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

// drain waits until the work of the engine and the one-sided operations so far have ended.
func (c *Comm) drain(ctx context.Context) error {
	err := c.engine.Drain(ctx)
	if err == nil && c.signals != nil {
		err = c.signals.Drain(ctx)
	}
	return err
}
