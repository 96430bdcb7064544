package goccl

import (
	"errors"
	"sync"

	"github.com/goccl/goccl/algorithm"
)

// Call is one request of one communicator in a group.
type Call struct {
	Comm    *Comm
	Request algorithm.Request
}

// Submit enqueues requests of this communicator as one group: sends and receives among them progress together.
func (c *Comm) Submit(reqs ...algorithm.Request) error {
	if err := c.prepare(reqs); err != nil {
		return err
	}
	return c.enqueue(reqs)
}

// Submit enqueues a group: any mix of collectives, sends and receives, on any communicators, several ranks of this process included. When a
// request is invalid, none is enqueued.
//
// Communicators run side by side: on a synchronous stream each communicator's part gets a goroutine of its own, so that ranks of one
// process that wait for each other cannot deadlock.
func Submit(calls []Call) error {
	var order []*Comm
	parts := make(map[*Comm][]algorithm.Request)
	for _, call := range calls {
		if _, seen := parts[call.Comm]; !seen {
			order = append(order, call.Comm)
		}
		parts[call.Comm] = append(parts[call.Comm], call.Request)
	}
	for _, c := range order {
		if err := c.prepare(parts[c]); err != nil {
			return err
		}
	}
	if len(order) == 1 {
		return order[0].enqueue(parts[order[0]])
	}
	errs := make([]error, len(order))
	var wg sync.WaitGroup
	for i, c := range order {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = c.enqueue(parts[c])
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// prepare checks the requests and gives each a stream.
func (c *Comm) prepare(reqs []algorithm.Request) error {
	if c.closed.Load() {
		return &Error{Op: "submit", Rank: c.rank, Peer: -1, Err: ErrClosed}
	}
	for i := range reqs {
		r := &reqs[i]
		if r.Stream == nil {
			s, err := c.dev.WrapStream(0)
			if err != nil {
				return &Error{Op: r.Collective.String(), Rank: c.rank, Peer: -1, Err: err}
			}
			r.Stream = s
		}
		if err := r.Validate(c.size); err != nil {
			return &Error{Op: r.Collective.String(), Rank: c.rank, Peer: -1, Err: err}
		}
	}
	return nil
}

// enqueue numbers the requests and hands them to the engine; mu keeps the numbers and the engine's order the same.
func (c *Comm) enqueue(reqs []algorithm.Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.engine.Err(); err != nil {
		return err
	}
	seq := c.seq + 1
	c.seq += uint64(len(reqs))
	if c.checker != nil {
		if err := c.checker.requests(seq, reqs); err != nil {
			return err
		}
	}
	return c.engine.Enqueue(seq, reqs)
}
