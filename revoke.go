package goccl

import "fmt"

// Revoke ends all running and later work of this rank, as Abort does, and leaves the communicator good for Split, Shrink and Close. Every rank
// calls it; none waits for another.
func (c *Comm) Revoke() {
	c.revoked.Store(true)
	cause := &Error{Comm: c.cfg.Name, Op: "communicator", Rank: c.rank, Peer: -1, Err: fmt.Errorf("%w: it was revoked", ErrAborted)}
	c.engine.Abort(cause)
	c.fate.revoke(cause) // registered algorithms
}

// whole is nil while ranks can be asked to make another communicator of this one.
func (c *Comm) whole(op string) error {
	if c.revoked.Load() && !c.closed.Load() {
		return c.fate.err()
	}
	return c.usable(op)
}
