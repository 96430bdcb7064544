package core

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
)

// The steps of a request:
//
// 1. Find the communicator by its handle, without a lock.
// 2. Translate every request of the group, and wrap its stream: one comparison when it is the communicator's latest.
// 3. Submit the requests of one communicator to it, or requests of several to goccl.Submit. Package goccl validates,
//    orders and enqueues them, on the calling thread, since the stream may be the thread's own default stream.
//
// The scratch of a call comes from a pool, so a call allocates nothing.

// group is the scratch of one call.
type group struct {
	reqs  []collective.Request
	comms []*goccl.Comm // of each request
	calls []goccl.Call  // the same requests, when there are several communicators

	events bool // a request has an event to record
}

var groups = sync.Pool{New: func() any { return new(group) }}

func Submit(reqs []Request) error {
	if len(reqs) == 0 {
		return nil
	}
	g := groups.Get().(*group)
	defer g.release()
	several, err := g.translate(reqs)
	if err != nil {
		return err
	}
	if several {
		for i, c := range g.comms {
			g.calls = append(g.calls, goccl.Call{Comm: c, Request: g.reqs[i]})
		}
		err = goccl.Submit(g.calls)
	} else {
		err = g.comms[0].Submit(g.reqs...)
	}
	if err != nil || !g.events {
		return err
	}
	return g.launched(reqs)
}

// Check is Submit without the enqueueing. It replaces a created operator by its factor, so that the operator may be
// destroyed before the request is submitted.
func Check(q *Request) error {
	c, _, err := usable(q.Comm, stateOpen)
	if err != nil {
		return err
	}
	var r collective.Request
	if err := c.translate(q, &r); err != nil {
		return err
	}
	if err := r.Validate(c.rank, c.size); err != nil {
		return c.wrap(q, err)
	}
	if r.Op == datatype.PreMulSum && q.Op >= firstCreatedOp {
		q.Op, q.Scalar, q.ScalarPtr = uint32(datatype.PreMulSum), binary.LittleEndian.Uint64(r.Scalar[:]),
			uintptr(r.ScalarPtr)
	}
	return nil
}

// translate fills in reqs and comms. It reports whether there are several communicators.
func (g *group) translate(reqs []Request) (several bool, err error) {
	g.reqs = slices.Grow(g.reqs, len(reqs))[:len(reqs)]
	var c *comm
	var inner *goccl.Comm
	for i := range reqs {
		q := &reqs[i]
		if c == nil || q.Comm != c.handle {
			several = several || c != nil
			if c, inner, err = usable(q.Comm, stateOpen); err != nil {
				return false, err
			}
		}
		g.comms = append(g.comms, inner)
		r := &g.reqs[i]
		if err = c.translate(q, r); err != nil {
			return false, err
		}
		g.events = g.events || q.Config != nil && q.Config.Launched != 0
		if r.Stream, err = c.stream(q.Stream); err != nil {
			return false, c.wrap(q, err)
		}
	}
	return several, nil
}

// release drops all references, so that the pool keeps no object alive.
func (g *group) release() {
	clear(g.reqs)
	clear(g.comms)
	clear(g.calls)
	g.events = false
	g.reqs, g.comms, g.calls = g.reqs[:0], g.comms[:0], g.calls[:0]
	groups.Put(g)
}
