package goccl

import (
	"context"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
)

// runLocked enqueues an operation of another engine than the communicator's, on the path of all requests: part.check
// compares it with the peers', part.enqueue numbers and records it. A detached operation may leave out ranks, and may
// run after the end of the communicator. The caller holds mu.
func (c *Comm) runLocked(op collective.Operation, detached bool) error {
	r, wrong := op.Request()
	name := r.Called().String()
	if err := c.begin(name, &r.Stream, detached); err != nil {
		return err
	}
	if wrong != nil {
		return c.wrap(name, wrong)
	}
	c.single[0] = r
	p := part{c: c, reqs: c.single[:], collectives: 1, work: op, detached: detached}
	if err := p.check(); err != nil {
		return err
	}
	return p.enqueue()
}

// begin checks that the communicator can be used, on stream s, and makes s the default stream if it is nil. The caller
// holds mu.
func (c *Comm) begin(op string, s *device.Stream, detached bool) error {
	usable := c.usable
	if detached {
		usable = c.open
	}
	if err := usable(op); err != nil {
		return err
	}
	if *s == nil {
		d, err := c.defaultStream()
		if err != nil {
			return c.wrap(op, err)
		}
		*s = d
	}
	if kind := (*s).Device().ID().Kind; kind != c.dev.ID().Kind {
		return c.errorf(op, ErrInvalidArgument, "the stream belongs to a %v device, the communicator to a %v device", kind,
			c.dev.ID().Kind)
	}
	return nil
}

// bounded calls f, in which ranks may wait for each other, with mu held and with a context that ends after
// Config.Timeout, with the communicator, and when a peer aborts.
func (c *Comm) bounded(ctx context.Context, op string, f func(context.Context) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(op); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, c.cfg.Timeout)
	defer stop()
	ctx, stop2 := c.group.Bound(ctx, op)
	defer stop2()
	if err := f(ctx); err != nil {
		return c.group.JointError(ctx, op, err)
	}
	return nil
}

// follow orders work on s behind the communicator's. Of one that has ended nothing runs.
func (c *Comm) follow(s device.Stream, detached bool) error {
	if detached && c.engine.Err() != nil {
		return nil
	}
	return c.engine.Follow(s)
}

// enqueueWork passes the operation of the part to its engine, behind the earlier work of the communicator.
func (p *part) enqueueWork(seq uint64) error {
	c, q := p.c, &p.reqs[0]
	enqueue := func() error { return p.work.Enqueue(seq, q.Stream) }
	var err error
	if q.PartOf == 0 { // else the communicator's engine orders it, and stamps its parts
		err = c.follow(q.Stream, p.detached)
	}
	switch {
	case err != nil:
	case q.PartOf != 0 || c.stream0 != nil:
		err = c.record.Passes(seq, p.reqs, enqueue())
	default:
		err = c.record.Stamped(seq, p.reqs, enqueue)
	}
	if err != nil {
		return c.wrap(q.Called().String(), err)
	}
	return nil
}
