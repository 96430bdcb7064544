package goccl

import "context"

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
