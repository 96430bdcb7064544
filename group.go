package goccl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/device"
)

// Call is one request of one communicator in a group.
type Call struct {
	Comm    *Comm
	Request algorithm.Request
}

// Submit enqueues requests of this communicator as one group. Within a group the collectives run first, in the order given, and then all
// sends and receives together, so their places among the collectives need not be the same on all ranks. When a request is invalid, none is
// enqueued.
func (c *Comm) Submit(reqs ...algorithm.Request) error {
	p := part{c: c, reqs: reqs}
	if err := p.prepare(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := p.check(); err != nil {
		return err
	}
	return p.enqueue()
}

// Submit enqueues a group: any mix of collectives, sends and receives, on any communicators, several ranks of this process included, in any
// order as far as different communicators go. When a request is invalid, none is enqueued.
//
//  1. Sort by communicator. All ranks sort alike, so that on a stream that several communicators share their work comes in one order
//     everywhere, and ranks cannot wait for each other in a circle.
//  2. Lock all communicators, in that order, so that groups submitted at the same time come in one order too.
//  3. Compare with the peers, when asked to; all communicators at the same time, because each may wait for another of this group.
//  4. Enqueue what does not block, in order; then what does (synchronous streams), side by side, for the same reason.
func Submit(calls []Call) error {
	var parts []*part
	find := make(map[*Comm]*part)
	for _, call := range calls {
		if call.Comm == nil {
			return fmt.Errorf("goccl: Submit: %w: a call without a communicator", ErrInvalidArgument)
		}
		p := find[call.Comm]
		if p == nil {
			p = &part{c: call.Comm}
			find[call.Comm] = p
			parts = append(parts, p)
		}
		p.reqs = append(p.reqs, call.Request)
	}
	for _, p := range parts {
		if err := p.prepare(); err != nil {
			return err
		}
	}
	slices.SortFunc(parts, func(a, b *part) int { return cmp.Or(cmp.Compare(a.c.id, b.c.id), cmp.Compare(a.c.rank, b.c.rank)) })
	for _, p := range parts {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
	}
	if err := together(parts, (*part).check); err != nil {
		return err
	}
	var blocking []*part
	var errs []error
	for _, p := range parts {
		if p.blocks() {
			blocking = append(blocking, p)
		} else {
			errs = append(errs, p.enqueue())
		}
	}
	return errors.Join(append(errs, together(blocking, (*part).enqueue))...)
}

// part is what a group asks of one communicator.
type part struct {
	c           *Comm
	reqs        []algorithm.Request // collectives first
	collectives int
}

// together runs f for all parts at the same time.
func together(parts []*part, f func(*part) error) error {
	if len(parts) == 1 {
		return f(parts[0])
	}
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() { errs[i] = f(p) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// prepare checks the requests, gives each a stream and puts the collectives first.
func (p *part) prepare() error {
	c := p.c
	if c.closed.Load() {
		return &Error{Op: "submit", Rank: c.rank, Peer: -1, Err: ErrClosed}
	}
	for i := range p.reqs {
		r := &p.reqs[i]
		if err := r.Validate(c.size); err != nil {
			return &Error{Op: r.Collective.String(), Rank: c.rank, Peer: -1, Err: err}
		}
		if r.Stream == nil {
			s, err := c.dev.WrapStream(0)
			if err != nil {
				return &Error{Op: r.Collective.String(), Rank: c.rank, Peer: -1, Err: err}
			}
			r.Stream = s
		}
		if !isPointToPoint(r) {
			p.collectives++
		}
	}
	if p.collectives != 0 && p.collectives != len(p.reqs) {
		p.reqs = slices.Clone(p.reqs) // the caller's order is the caller's
		slices.SortStableFunc(p.reqs, func(a, b algorithm.Request) int { return btoi(isPointToPoint(&a)) - btoi(isPointToPoint(&b)) })
	}
	return nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func isPointToPoint(r *algorithm.Request) bool {
	return r.Collective == algorithm.Send || r.Collective == algorithm.Recv
}

// blocks reports whether enqueuing may wait for peers.
func (p *part) blocks() bool {
	if p.c.dev.ID().Kind != device.Host {
		return false
	}
	return slices.ContainsFunc(p.reqs, func(r algorithm.Request) bool { return r.Stream.Raw() == 0 })
}

// check compares the requests with the peers', in checked mode. c.mu is held until the requests are enqueued.
func (p *part) check() error {
	c := p.c
	if err := c.usable("submit"); err != nil {
		return err
	}
	if c.checker == nil {
		return nil
	}
	return c.checker.requests(c.seq+1, c.messages+1, p.reqs, p.collectives)
}

// enqueue numbers the requests and hands them to the engine; c.mu keeps the numbers and the engine's order the same. Collectives are numbered
// alike on all ranks; sends and receives, of which each rank has its own, have numbers of their own.
func (p *part) enqueue() error {
	c, n := p.c, p.collectives
	if n > 0 {
		seq := c.seq + 1
		c.seq += uint64(n)
		if err := c.enqueueCollectives(seq, p.reqs[:n]); err != nil {
			return err
		}
	}
	if n < len(p.reqs) {
		seq := c.messages + 1
		c.messages += uint64(len(p.reqs) - n)
		return c.engine.Enqueue(seq, p.reqs[n:])
	}
	return nil
}
