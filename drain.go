package goccl

import "context"

// Drain waits until the work that this rank has enqueued so far is done, whatever streams it is on, or ctx ends. Work on the host device is
// the business of its streams: Synchronize them.
func (c *Comm) Drain(ctx context.Context) error {
	d, ok := c.engine.(interface{ Drain(context.Context) error })
	if !ok {
		return c.engine.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil
	}
	return d.Drain(ctx)
}
