package goccl

import (
	"context"
	"errors"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device"
)

// Finalize ends the use of the communicator: it waits until the work that this rank has enqueued is over, and tells the peers that nothing more will
// come. It waits for no peer beyond that work. No collective may follow; Close should.
//
//  1. No more work is taken.
//  2. What was enqueued ends, whatever streams it is on. A death, a deadline or a mismatch that cut it short is returned; an abort is not, since
//     the work is over, and whoever waited for it knows.
//  3. The goodbye: to the peers' work, then to their bootstraps. From then on what a peer does, or how it ends, is nothing to this rank, and the end of
//     this process is no death to them.
//
// When ctx ends in 2, Finalize may be called again; after an error of the work, too, and it answers the same. A second call does nothing otherwise.
func (c *Comm) Finalize(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return &Error{Comm: c.cfg.Name, Op: "finalize", Rank: c.rank, Peer: -1, Err: ErrClosed}
	}
	if c.done.Load() {
		return nil
	}
	if err := c.drain(ctx); err != nil && (ctx.Err() != nil || !errors.Is(err, ErrAborted)) {
		return c.wrap("finalize", err)
	}
	c.done.Store(true)
	c.fate.immunize()
	tell, cut := c.notices.leaving()
	c.engine.Leave()
	if tell {
		c.notices.say(leftClosed, cut)
		c.notices.flush() // behind the goodbye nothing is heard
	}
	bootstrap.Leave(c.boot)
	return nil
}

// awaitPeers waits, after Finalize, until the peers have left too: a kernel of theirs may still read what this rank is about to free. Memory of the host
// device stays mapped where it is used.
func (c *Comm) awaitPeers() {
	if !c.done.Load() || c.dev.ID().Kind != device.CUDA {
		return
	}
	ctx, stop := context.WithTimeout(c.fate.ctx, c.cfg.Timeout)
	defer stop()
	bootstrap.AwaitLeave(ctx, c.boot)
}
