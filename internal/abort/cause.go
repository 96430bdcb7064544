package abort

import "sync/atomic"

// Cause is the first error that ended something. Several goroutines may use it.
type Cause struct{ first atomic.Pointer[error] }

// Set makes err the cause, unless there is one. It reports whether err is the cause now.
func (c *Cause) Set(err error) bool { return c.first.CompareAndSwap(nil, &err) }

// Clear removes the cause.
func (c *Cause) Clear() { c.first.Store(nil) }

// Err returns the cause, or nil.
func (c *Cause) Err() error {
	if p := c.first.Load(); p != nil {
		return *p
	}
	return nil
}
