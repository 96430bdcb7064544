package plugin

import (
	"fmt"

	"github.com/goccl/goccl/internal/driver/ncclnet"
	"github.com/goccl/goccl/transport"
)

// count counts a piece that has arrived.
func (p *Peer) count(c *control) {
	s := &p.progress
	if s.arriving[c.number]--; s.arriving[c.number] > 0 {
		return
	}
	delete(s.arriving, c.number)
	s.arrived[c.number] = struct{}{}
	for {
		if _, ok := s.arrived[s.upTo+1]; !ok {
			break
		}
		s.upTo++
		delete(s.arrived, s.upTo)
	}
	p.Arrive(c.imm)
}

// announced moves the first piece to the data messages.
func (p *Peer) announced() {
	p.queueMu.Lock()
	q := p.pieces[0]
	p.pieces = p.pieces[1:]
	p.queueMu.Unlock()
	if q.size == 0 {
		p.sent(&q)
		return
	}
	p.users[q.src]++
	p.progress.sends = append(p.progress.sends, transfer{piece: q})
}

func (p *Peer) sent(q *piece) {
	if q.put.left--; q.put.left == 0 {
		p.end(q.put, nil)
	}
}

// handleOf registers a region on a connection, once.
func (p *Peer) handleOf(r *region, comm int) (ncclnet.Handle, error) {
	u := use{r, comm}
	if h, ok := p.handles[u]; ok {
		return h, nil
	}
	h, err := p.lib.Register(p.comms[comm], uintptr(r.ptr), r.size, r.kind)
	if err == nil {
		p.handles[u] = h
	}
	return h, err
}

// start begins the messages of a list in order, at most inFlight at a time, and removes those that are complete, in
// order too, as plugins demand.
func (p *Peer) start(list *[]transfer, comm int, begin func(t *transfer, at uintptr, h ncclnet.Handle) (ncclnet.Request,
	error), complete func(t *transfer) (bool, error)) (did bool, err error) {
	for i := range (*list)[:min(len(*list), inFlight)] {
		t := &(*list)[i]
		if t.req != 0 {
			continue
		}
		h, err := p.handleOf(t.src, comm)
		if err == nil {
			t.req, err = begin(t, uintptr(t.src.ptr.Add(t.off)), h)
		}
		if err != nil {
			return did, gone(err)
		}
		if t.req == 0 {
			break // later ones must not overtake it
		}
		did = true
	}
	for len(*list) > 0 && (*list)[0].req != 0 {
		t := &(*list)[0]
		done, n, err := p.lib.Test(t.req)
		if err != nil {
			return did, gone(err)
		}
		if !done {
			return did, nil
		}
		if did = true; comm == dataIn && !t.flush && n >= 0 && n != int(t.size) {
			return did, fmt.Errorf("%w: plugin: a message of %d bytes instead of %d", transport.ErrPeerGone, n, t.size)
		}
		if done, err = complete(t); err != nil {
			return did, gone(err)
		}
		if !done {
			return did, nil
		}
		if p.users[t.src]--; p.users[t.src] == 0 {
			delete(p.users, t.src)
		}
		(*list)[0] = transfer{}
		*list = (*list)[1:]
	}
	return did, nil
}

func (p *Peer) moveOut() (bool, error) {
	return p.start(&p.progress.sends, dataOut,
		func(t *transfer, at uintptr, h ncclnet.Handle) (ncclnet.Request, error) {
			return p.lib.Send(p.comms[dataOut], at, int64(t.size), h)
		},
		func(t *transfer) (bool, error) {
			p.sent(&t.piece)
			return true, nil
		})
}

func (p *Peer) moveIn() (bool, error) {
	return p.start(&p.progress.receives, dataIn,
		func(t *transfer, at uintptr, h ncclnet.Handle) (ncclnet.Request, error) {
			return p.lib.Receive(p.comms[dataIn], at, int64(t.size), h)
		},
		func(t *transfer) (bool, error) {
			if t.src.kind == ncclnet.CUDA && p.port.flush && !t.flush {
				h, err := p.handleOf(t.src, dataIn)
				if err == nil {
					t.req, err = p.lib.Flush(p.comms[dataIn], uintptr(t.src.ptr.Add(t.off)), int64(t.size), h)
				}
				if t.flush = true; err != nil || t.req != 0 {
					return false, err
				}
			}
			p.count(&t.control)
			return true, nil
		})
}
