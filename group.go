package goccl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/collective/check"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/job/membership"
)

// Call is one request of one communicator in a group.
type Call struct {
	Comm    *Comm
	Request collective.Request
}

// Submit enqueues requests of this communicator as one group. Within a group the collectives run first, in the given
// order, and then all sends and receives together. So the position of sends and receives among the collectives may
// differ between ranks. If a request is invalid, nothing is enqueued.
func (c *Comm) Submit(reqs ...collective.Request) error {
	p := part{c: c, reqs: reqs}
	if err := p.prepare(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := p.check(); err != nil { // run, which would be a frame more on the way from C to the launch
		return err
	}
	if err := p.enqueue(); err != nil {
		return err
	}
	return p.verify()
}

// one is Submit of one request. It copies the request into the communicator, so that the call allocates nothing.
// Engines do not retain the request.
func (c *Comm) one(r collective.Request) error {
	p := part{c: c}
	if err := p.ready(); err != nil {
		return err
	}
	if err := p.prepareOne(&r); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.single[0] = r
	p.reqs = c.single[:]
	return p.run()
}

// run checks and enqueues the requests. The caller holds c.mu.
func (p *part) run() error {
	if err := p.check(); err != nil {
		return err
	}
	if err := p.enqueue(); err != nil {
		return err
	}
	return p.verify()
}

// Submit enqueues a group: any mix of collectives, sends and receives, on any communicators, including several ranks of
// this process. Calls of different communicators may come in any order. If a request is invalid, nothing is enqueued.
//
//  1. Sort by communicator. All ranks use the same sort order, so work of several communicators on a shared stream has
//     the same order on all ranks, and ranks cannot deadlock.
//  2. Lock all communicators, in that order, so that concurrent groups are also ordered.
//  3. Compare with the peers if checking is on, for all communicators concurrently, because each may wait for another
//     of this group.
//  4. Enqueue, in that order, on the calling thread, because a request may mean this thread's default stream. If
//     enqueueing may block (synchronous streams of the host device), the parts on host devices run in concurrent
//     chains (see chains).
//  5. Compare the data if that is wanted.
//
// A call that does not block allocates nothing: its scratch comes from a pool.
func Submit(calls []Call) error {
	g := groupings.Get().(*grouping)
	defer g.release()
	if err := g.gather(calls); err != nil {
		return err
	}
	compare := false
	for i := range g.parts {
		p := &g.parts[i]
		if err := p.prepare(); err != nil {
			return err
		}
		compare = compare || p.c.checker != nil
	}
	slices.SortFunc(g.parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.c.id, b.c.id), cmp.Compare(a.c.rank, b.c.rank))
	})
	for i := range g.parts {
		g.parts[i].c.mu.Lock()
	}
	defer func() {
		for i := range g.parts {
			g.parts[i].c.mu.Unlock()
		}
	}()
	if err := g.check(compare); err != nil {
		return err
	}
	if err := g.enqueue(); err != nil || !compare {
		return err
	}
	return g.concurrently((*part).verify)
}

// grouping is the scratch of one Submit.
type grouping struct {
	parts []part
	reqs  []collective.Request // the requests of all parts, concatenated
}

var groupings = sync.Pool{New: func() any { return new(grouping) }}

// release clears g and returns it to the pool. The pool keeps the memory but no references to requests.
func (g *grouping) release() {
	clear(g.parts)
	clear(g.reqs)
	g.parts, g.reqs = g.parts[:0], g.reqs[:0]
	groupings.Put(g)
}

// gather makes one part for each communicator, with its requests in the order of the calls.
func (g *grouping) gather(calls []Call) error {
	for i := range calls {
		c := calls[i].Comm
		if c == nil {
			return fmt.Errorf("goccl: Submit: %w: a call without a communicator", ErrInvalidArgument)
		}
		if k := g.find(c); k < 0 {
			g.parts = append(g.parts, part{c: c})
		}
	}
	g.reqs = slices.Grow(g.reqs, len(calls))
	for i := range g.parts {
		p := &g.parts[i]
		from := len(g.reqs)
		for k := range calls {
			if calls[k].Comm == p.c {
				g.reqs = append(g.reqs, calls[k].Request)
			}
		}
		p.reqs = g.reqs[from:len(g.reqs):len(g.reqs)]
	}
	return nil
}

// find returns the index of a communicator's part, or -1. It searches linearly from the end: groups have few parts, and
// calls of one communicator usually follow each other.
func (g *grouping) find(c *Comm) int {
	for i := len(g.parts) - 1; i >= 0; i-- {
		if g.parts[i].c == c {
			return i
		}
	}
	return -1
}

func (g *grouping) check(compare bool) error {
	if compare {
		return g.concurrently((*part).check)
	}
	for i := range g.parts {
		if err := g.parts[i].check(); err != nil {
			return err
		}
	}
	return nil
}

// concurrently calls f for all parts at the same time: each may wait for another.
func (g *grouping) concurrently(f func(*part) error) error {
	every := make([][]*part, len(g.parts))
	for i := range g.parts {
		every[i] = []*part{&g.parts[i]}
	}
	return together(every, f)
}

func (g *grouping) enqueue() error {
	blocks := false
	for i := range g.parts {
		blocks = blocks || g.parts[i].blocks()
	}
	var side []*part
	var errs []error
	for i := range g.parts {
		if p := &g.parts[i]; blocks && p.c.dev.ID().Kind == device.Host {
			side = append(side, p)
		} else if err := p.enqueue(); err != nil {
			errs = append(errs, err)
		}
	}
	if blocks {
		errs = append(errs, together(chains(side), (*part).enqueue))
	}
	return errors.Join(errs...)
}

// chains divides the sorted parts on host devices into chains that run concurrently. Parts of one device may share
// streams, so they are in one chain, one after the other. But two ranks of one communicator wait for each other, so
// they are in different chains. There is no deadlock, because all chains and streams are sorted, on all ranks.
func chains(parts []*part) [][]*part {
	var out [][]*part
next:
	for _, p := range parts {
		for k, chain := range out {
			if chain[0].c.dev.ID() == p.c.dev.ID() &&
				!slices.ContainsFunc(chain, func(o *part) bool { return o.c.id == p.c.id }) {
				out[k] = append(chain, p)
				continue next
			}
		}
		out = append(out, []*part{p})
	}
	return out
}

// part is the requests of one communicator in a group.
type part struct {
	c           *Comm
	reqs        []collective.Request // collectives first
	collectives int
	work        collective.Operation // what runs the only request; nil: the communicator's engine runs all
	data        *check.Data          // nil: data is not compared
	detached    bool                 // see runLocked
}

// together runs f for all parts, the chains concurrently. A chain stops at its first error.
func together(chains [][]*part, f func(*part) error) error {
	errs := make([]error, len(chains))
	run := func(i int) {
		for _, p := range chains[i] {
			if errs[i] = f(p); errs[i] != nil {
				return
			}
		}
	}
	var wg sync.WaitGroup
	for i := range chains[1:] {
		wg.Go(func() { run(i + 1) })
	}
	run(0)
	wg.Wait()
	return errors.Join(errs...)
}

// prepare validates the requests, gives each a stream and moves the collectives to the front.
func (p *part) prepare() error {
	if err := p.ready(); err != nil {
		return err
	}
	for i := range p.reqs {
		if err := p.prepareOne(&p.reqs[i]); err != nil {
			return err
		}
	}
	if p.collectives != 0 && p.collectives != len(p.reqs) {
		p.reqs = slices.Clone(p.reqs) // do not reorder the caller's slice
		slices.SortStableFunc(p.reqs, func(a, b collective.Request) int {
			return plain.Bit[int](a.PointToPoint()) - plain.Bit[int](b.PointToPoint())
		})
	}
	return nil
}

func (p *part) ready() error {
	if p.c.closed.Load() {
		return p.c.group.Fault("submit", -1, ErrClosed)
	}
	return nil
}

func (p *part) prepareOne(r *collective.Request) error {
	c := p.c
	if err := r.Validate(c.rank, c.size); err != nil {
		return c.group.Fault(r.Collective.String(), -1, err)
	}
	if r.Stream == nil {
		s, err := c.defaultStream()
		if err != nil {
			return c.group.Fault(r.Collective.String(), -1, err)
		}
		r.Stream = s
	}
	if !r.PointToPoint() {
		p.collectives++
	}
	return nil
}

// defaultStream returns stream 0: on a GPU one permanent wrapper, on the host device a new synchronous stream for every
// call.
func (c *Comm) defaultStream() (device.Stream, error) {
	if c.stream0 != nil {
		return c.stream0, nil
	}
	return c.dev.WrapStream(0)
}

// blocks reports whether enqueueing may wait for peers.
func (p *part) blocks() bool {
	return p.c.dev.ID().Kind == device.Host &&
		slices.ContainsFunc(p.reqs, func(r collective.Request) bool { return r.Stream.Raw() == 0 })
}

// check compares the requests with the peers' if checking is on. The caller holds c.mu until the requests are enqueued.
func (p *part) check() error {
	c := p.c
	if p.detached {
		return nil
	}
	if err := c.usable("submit"); err != nil {
		return err
	}
	first, second := c.engine.Check(c.seq+1, p.reqs[:p.collectives]), c.engine.Check(c.messages+1, p.reqs[p.collectives:])
	if first != nil || second != nil {
		return errors.Join(first, second)
	}
	if c.checker == nil {
		return nil
	}
	err := c.checker.Requests(c.seq+1, c.messages+1, p.reqs, p.collectives)
	switch {
	case errors.Is(err, ErrMismatch):
		c.seq += uint64(p.collectives) // peers number refused collectives, too
	case err == nil && p.work == nil && c.cfg.CheckData:
		if p.data, err = c.checker.Begin(p.reqs); err != nil {
			c.status.End(err) // the peers go on
		}
	}
	return err
}

// verify compares the data of requests that were enqueued, if that is wanted. The caller holds c.mu.
func (p *part) verify() error { return p.data.End(p.collectives, p.c.seq, p.c.messages) }

func peerOf(r *collective.Request) (peer int, sends bool) {
	return r.Peer, r.Collective == collective.Send
}

// enqueue numbers the requests and passes them to the engine. c.mu keeps the numbers in the engine's order. Collectives
// have the same numbers on all ranks. Sends and receives differ between ranks and have a separate, local numbering.
func (p *part) enqueue() error {
	c, n := p.c, p.collectives
	if !p.detached && c.notices.Counts() {
		if err := membership.Count(c.notices, n, p.reqs[n:], peerOf); err != nil {
			c.status.End(err)
			return err
		}
	}
	if n > 0 {
		seq := c.seq + 1
		c.seq += uint64(n)
		c.record.Calls(seq, p.reqs[:n])
		var err error
		switch {
		case p.work != nil:
			err = p.enqueueWork(seq)
		case c.registered != nil || c.wanted != nil || c.record.Stamps():
			err = c.enqueueSelected(seq, p.reqs[:n])
		default:
			err = c.record.Passes(seq, p.reqs[:n], c.engine.Enqueue(seq, p.reqs[:n]))
		}
		if err != nil {
			c.record.Ended(&p.reqs[0], seq, n, err)
			return err
		}
	}
	if n < len(p.reqs) {
		seq := c.messages + 1
		c.messages += uint64(len(p.reqs) - n)
		c.record.Calls(seq, p.reqs[n:])
		err := c.record.Submit(c.engine, seq, p.reqs[n:])
		if err != nil {
			c.record.Ended(&p.reqs[n], seq, len(p.reqs)-n, err)
		}
		return err
	}
	return nil
}
