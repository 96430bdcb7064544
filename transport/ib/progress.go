package ib

import (
	"fmt"
	"runtime"
	"time"

	"github.com/goccl/goccl/internal/driver/verbs"
	"github.com/goccl/goccl/transport"
)

// receiveID marks the completions of receives. The other bits are the generation, which Connect counts.
const receiveID = 1 << 63

// spinTime is how long the goroutine polls after the last completion before it sleeps. Its polls yield.
const spinTime = 50 * time.Microsecond

// flushTime is how long a broken Peer waits for the adapter to give back what was posted.
const flushTime = time.Second

// progress is the goroutine of a connected Peer. It ends after the Peer has failed, as it does at Close.
//
//  1. Poll the completion queue and handle what came.
//  2. If nothing came for spinTime, ask for a notification, poll once more, and sleep until the adapter notifies.
//  3. A broken Peer's requests come back as Flushed. When all have, or after flushTime, the rest gets the error.
func (p *Peer) progress() {
	defer close(p.stopped)
	var wc [16]verbs.Completion
	last, armed := time.Now(), false
	for {
		n, err := p.cq.Poll(wc[:])
		if err != nil {
			p.fail(fmt.Errorf("ib: %s: %w: %w", p.way(), ErrQueuePair, err))
		}
		if n > 0 {
			p.handle(wc[:n])
			last, armed = time.Now(), false
			continue
		}
		if p.Err() != nil {
			if p.failedAt.IsZero() {
				p.failedAt = time.Now()
			}
			if p.drained() || time.Since(p.failedAt) > flushTime {
				p.abandon()
				return
			}
			time.Sleep(connectPoll)
			continue
		}
		switch {
		case armed:
			_ = p.wake.wait(p.channel.Ack) // interrupted when the Peer breaks
			armed = false
		case time.Since(last) > spinTime:
			if err := p.cq.Notify(); err != nil {
				p.fail(fmt.Errorf("ib: %s: %w: %w", p.way(), ErrQueuePair, err))
			}
			armed = true
		default:
			runtime.Gosched()
		}
	}
}

// handle processes completions in their order.
func (p *Peer) handle(wc []verbs.Completion) {
	for i := range wc {
		c := &wc[i]
		switch {
		case c.ID&receiveID == 0:
			p.sent(c)
		case c.ID&^receiveID != p.generation:
		case c.Status == verbs.Success:
			p.receive(c)
		case c.Status == verbs.Flushed && p.Err() == nil:
			p.suspect(c)
		case c.Status != verbs.Flushed:
			p.fail(completionError(c, p.way(), p.port.patience()))
		}
	}
	if err := p.arrive(); err != nil {
		p.fail(err)
	}
}

// sent processes the completion of the oldest posted request.
func (p *Peer) sent(c *verbs.Completion) {
	if c.Status != verbs.Success && c.Status != verbs.Flushed {
		p.fail(completionError(c, p.way(), p.port.patience()))
	}
	p.mu.Lock()
	if p.queue.posted.len() == 0 {
		p.mu.Unlock()
		return
	}
	r := p.queue.posted.pop()
	if c.Status == verbs.Success {
		p.pump()
	}
	p.mu.Unlock()
	var err error
	if c.Status != verbs.Success {
		if err = p.Err(); err == nil {
			err = completionError(c, p.way(), p.port.patience())
			p.suspect(c)
		}
	}
	r.end(err)
}

// suspectTime is how long the adapter may take to say why a queue pair has failed.
const suspectTime = 100 * time.Millisecond

// suspect breaks the Peer because of a flushed request. The reason, an event or the completion of another request, is a
// better error and may still be on its way.
func (p *Peer) suspect(c *verbs.Completion) {
	if !p.suspected {
		p.suspected = true
		err := completionError(c, p.way(), p.port.patience())
		time.AfterFunc(suspectTime, func() { p.fail(err) })
	}
}

func (r *request) end(err error) {
	if r.done != nil {
		r.done(err)
	}
}

// receive notes a received immediate.
func (p *Peer) receive(c *verbs.Completion) { p.received = append(p.received, c.Imm) }

// arrive replaces the receives that were taken, and counts the arrivals.
func (p *Peer) arrive() error {
	if len(p.received) == 0 {
		return nil
	}
	defer func() { p.received = p.received[:0] }()
	if p.Err() == nil {
		if err := p.qp.Receive(len(p.received), receiveID|p.generation); err != nil {
			return fmt.Errorf("ib: %s: %w: %w", p.way(), ErrQueuePair, err)
		}
	}
	if err := p.port.flush.run(); err != nil {
		return fmt.Errorf("ib: %s: read GPU memory, so that earlier writes are in it: %w", p.way(), err)
	}
	for _, imm := range p.received {
		switch {
		case imm < transport.NumImmediates:
			p.Arrive(imm)
		case imm == hello:
			p.helloCame = true
		case imm == question:
			p.mu.Lock()
			p.command(verbs.WriteImmediate, answer, nil)
			p.mu.Unlock()
		case imm == answer:
			p.answers.Arrive(0)
		case imm == goodbye:
			return fmt.Errorf("ib: %s: %w", p.way(), transport.ErrPeerClosed)
		default:
			return fmt.Errorf("ib: %s: the peer sent immediate %#x: is it the same version of goccl?", p.way(), imm)
		}
	}
	return nil
}

func (p *Peer) drained() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.posted.len() == 0
}

// abandon gives the error to all requests.
func (p *Peer) abandon() {
	p.mu.Lock()
	var rest []request
	for _, r := range []*ring{&p.queue.posted, &p.queue.waiting} {
		for r.len() > 0 {
			rest = append(rest, r.pop())
		}
	}
	p.mu.Unlock()
	for i := range rest {
		rest[i].end(p.Err())
	}
}
