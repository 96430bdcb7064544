package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// The way of a request:
//
//  1. Find the communicator by its handle: no lock.
//  2. Translate and check every request of the group, before anything is enqueued.
//  3. Wrap the stream: one comparison when it is the communicator's latest.
//  4. Hand each communicator its part, in the order in which they first appear. On GPUs the calling thread does it, since enqueueing does not
//     wait and a stream may be the thread's own default stream. On the host device a synchronous stream does the work in the call, so ranks
//     that wait for each other run side by side (see chain), and what one rank put on its stream keeps its order.
//
// The scratch of a call comes from a pool, so a call allocates nothing.

// group is the scratch of one call.
type group struct {
	parts []part
	reqs  []algorithm.Request
}

type part struct {
	c     *comm
	inner *goccl.Comm
	n     int // requests
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

// Check is Submit without the enqueueing. A created operator is replaced by its factor, so that it may be destroyed before the request is
// submitted.
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
	host, err := g.prepare(reqs)
	switch {
	case err != nil:
		return err
	case len(g.parts) == 1:
		return g.parts[0].inner.Submit(g.reqs...)
	case host || checked():
		return g.sideBySide(reqs)
	}
	return g.each(reqs)
}

// prepare finds the communicators and translates the requests; host says that one of them is on a host device.
func (g *group) prepare(reqs []Request) (host bool, err error) {
	g.reqs = grow(g.reqs, len(reqs))
	var c *comm
	for i := range reqs {
		q := &reqs[i]
		if c == nil || q.Comm != c.handle {
			if c, err = g.part(q.Comm); err != nil {
				return false, err
			}
			host = host || c.dev.device.ID().Kind == device.Host
		} else {
			g.count(c)
		}
		r := &g.reqs[i]
		if err = c.translate(q, r); err != nil {
			return false, err
		}
		if r.Stream, err = c.stream(q.Stream); err != nil {
			return false, c.wrap(q, err)
		}
	}
	return host, nil
}

// checked says that ranks compare their operations before they enqueue them, so that enqueueing waits too.
var checked = sync.OnceValue(func() bool { return os.Getenv("GOCCL_CHECK") != "" })

// sideBySide is each, with a goroutine for every chain.
func (g *group) sideBySide(reqs []Request) error {
	var wg sync.WaitGroup
	errs := make([]error, len(g.parts))
	for _, c := range g.chains() {
		wg.Go(func() {
			for _, i := range c {
				p := &g.parts[i]
				own := make([]algorithm.Request, 0, p.n)
				for k := range reqs {
					if reqs[k].Comm == p.c.handle {
						own = append(own, g.reqs[k])
					}
				}
				if errs[i] = p.inner.Submit(own...); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// chains divides the communicators of a group: those of one device, which may share a stream, follow each other, unless they are ranks of one
// job, which would wait for each other.
func (g *group) chains() [][]int {
	var out [][]int
next:
	for i := range g.parts {
		c := g.parts[i].c
	chain:
		for k := range out {
			for _, o := range out[k] {
				if other := g.parts[o].c; other.dev != c.dev || other.job == c.job {
					continue chain
				}
			}
			out[k] = append(out[k], i)
			continue next
		}
		out = append(out, []int{i})
	}
	return out
}

// each hands every communicator its requests, gathered behind the others in g.reqs.
func (g *group) each(reqs []Request) error {
	n := len(reqs)
	for i := range g.parts {
		p := &g.parts[i]
		g.reqs = grow(g.reqs, n+p.n)[:n]
		for k := range reqs {
			if reqs[k].Comm == p.c.handle {
				g.reqs = append(g.reqs, g.reqs[k])
			}
		}
		if err := p.inner.Submit(g.reqs[n:]...); err != nil {
			return err
		}
		clear(g.reqs[n:])
	}
	return nil
}

// part finds the part of a communicator, or opens one, and counts a request in it.
func (g *group) part(h Handle) (*comm, error) {
	if p := g.find(h); p != nil {
		p.n++
		return p.c, nil
	}
	c, inner, err := open(h)
	if err == nil {
		err = c.usable()
	}
	if err != nil {
		return nil, err
	}
	g.parts = append(g.parts, part{c, inner, 1})
	return c, nil
}

func (g *group) count(c *comm) { g.find(c.handle).n++ }

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

// reset forgets what the call used, so that the pool keeps nothing alive.
func (g *group) reset() {
	clear(g.reqs)
	clear(g.parts)
	g.reqs, g.parts = g.reqs[:0], g.parts[:0]
}
