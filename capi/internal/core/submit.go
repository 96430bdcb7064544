package core

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
)

// The steps of a request:
//
// 1. Find the communicator by its handle, without a lock.
// 2. Translate and check every request of the group, before anything is enqueued.
// 3. Wrap the stream: one comparison when it is the communicator's latest.
// 4. Submit the requests of one communicator to it, or those of several to goccl.Submit, which defines their order. On
//    GPUs the calling thread enqueues, since enqueueing does not wait and the stream may be the thread's own default
//    stream.
//
// The scratch of a call comes from a pool, so a call allocates nothing.

// group is the scratch of one call.
type group struct {
	parts []part
	reqs  []algorithm.Request
	calls []goccl.Call // the same requests, when there are several communicators
}

type part struct {
	c     *comm
	inner *goccl.Comm
}

var groups = sync.Pool{New: func() any { return new(group) }}

// Submit enqueues requests as one group.
func Submit(reqs []Request) error {
	if len(reqs) == 0 {
		return nil
	}
	g := groups.Get().(*group)
	err := g.submit(reqs)
	g.reset()
	groups.Put(g)
	return err
}

// Check is Submit without the enqueueing. It replaces a created operator by its factor, so that the operator may be
// destroyed before the request is submitted.
func Check(q *Request) error {
	c, _, err := open(q.Comm)
	if err != nil {
		return err
	}
	if err := c.usable(); err != nil {
		return err
	}
	var r algorithm.Request
	if err := c.translate(q, &r); err != nil {
		return err
	}
	if r.Op == datatype.PreMulSum && q.Op >= firstCreatedOp {
		q.Op, q.Scalar, q.ScalarPtr = uint32(datatype.PreMulSum), binary.LittleEndian.Uint64(r.Scalar[:]), uintptr(r.ScalarPtr)
	}
	return nil
}

func (c *comm) usable() error {
	if c.state.Load() == stateRevoked {
		return fmt.Errorf("%w: the communicator was revoked; split, shrink or destroy it", ErrInvalidUsage)
	}
	return nil
}

func (g *group) submit(reqs []Request) error {
	if err := g.prepare(reqs); err != nil {
		return err
	}
	if len(g.parts) == 1 {
		return g.parts[0].inner.Submit(g.reqs...)
	}
	for i := range reqs {
		g.calls = append(g.calls, goccl.Call{Comm: g.find(reqs[i].Comm).inner, Request: g.reqs[i]})
	}
	return goccl.Submit(g.calls)
}

// prepare finds the communicators and translates the requests.
func (g *group) prepare(reqs []Request) (err error) {
	g.reqs = grow(g.reqs, len(reqs))
	var c *comm
	for i := range reqs {
		q := &reqs[i]
		if c == nil || q.Comm != c.handle {
			if c, err = g.part(q.Comm); err != nil {
				return err
			}
		}
		r := &g.reqs[i]
		if err = c.translate(q, r); err != nil {
			return err
		}
		if r.Stream, err = c.stream(q.Stream); err != nil {
			return c.wrap(q, err)
		}
	}
	return nil
}

// part finds the part of a communicator, or adds one.
func (g *group) part(h Handle) (*comm, error) {
	if p := g.find(h); p != nil {
		return p.c, nil
	}
	c, inner, err := open(h)
	if err == nil {
		err = c.usable()
	}
	if err != nil {
		return nil, err
	}
	g.parts = append(g.parts, part{c, inner})
	return c, nil
}

func (g *group) find(h Handle) *part {
	for i := len(g.parts) - 1; i >= 0; i-- {
		if g.parts[i].c.handle == h {
			return &g.parts[i]
		}
	}
	return nil
}

func grow(s []algorithm.Request, n int) []algorithm.Request {
	if cap(s) < n {
		bigger := make([]algorithm.Request, n, 2*n)
		copy(bigger, s)
		return bigger
	}
	return s[:n]
}

// reset drops all references, so that the pool keeps no object alive.
func (g *group) reset() {
	clear(g.reqs)
	clear(g.parts)
	clear(g.calls)
	g.reqs, g.parts, g.calls = g.reqs[:0], g.parts[:0], g.calls[:0]
}
