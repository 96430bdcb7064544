package goccl

import "fmt"

// Revoke ends all running and later work of this rank, as Abort does, but the communicator can still Split, Shrink and
// Close. Every rank must call it; the call does not wait for other ranks.
func (c *Comm) Revoke() {
	c.revoked.Store(true)
	cause := &Error{Comm: c.cfg.Name, Op: "communicator", Rank: c.rank, Peer: -1,
		Err: fmt.Errorf("%w: it was revoked", ErrAborted)}
	c.engine.Abort(cause)
	c.status.revoke(cause) // aborts the registered algorithms
}

// whole returns nil if another communicator can be made from this one.
func (c *Comm) whole(op string) error {
	if c.revoked.Load() && !c.closed.Load() {
		return c.status.err()
	}
	return c.usable(op)
}
