package ib

import (
	"context"
	"fmt"
	"time"

	"github.com/goccl/goccl/internal/driver/verbs"
	"github.com/goccl/goccl/transport"
)

// connectPoll is how long Connect sleeps between polls.
const connectPoll = 200 * time.Microsecond

// Connect joins the two halves:
//
//  1. The queue pair goes to its ready states, with the other half's numbers.
//  2. A write without bytes says hello. The other half's queue pair may not be ready yet: its adapter then drops the
//     packet, and this one sends it again as often as GOCCL_IB_RETRY_CNT allows. When that was in vain the queue pair
//     starts again from 1 with the same packet numbers, so that a hello which did come is not counted twice. The
//     other half's hello, which is one packet, may have come before that.
//  3. When both hellos have come and this one is acknowledged, puts are possible in both directions.
func (p *Peer) Connect(ctx context.Context, remote []byte) error {
	a, err := parseAddress(remote)
	if err != nil {
		return fmt.Errorf("ib: %s: the address of the other half: %w", p.port.nic, err)
	}
	if !p.remote.CompareAndSwap(nil, a) {
		return fmt.Errorf("ib: %s: Connect was called before", p.way())
	}
	for again := false; !p.helloSent || !p.helloCame; again = true {
		if err := p.start(a, again); err != nil {
			return fmt.Errorf("ib: %s: connect: %w", p.way(), err)
		}
		for !p.helloSent || !p.helloCame {
			failed, err := p.connecting()
			if err != nil {
				return err
			}
			if failed {
				break
			}
			if err := p.Err(); err != nil {
				return err
			}
			if ctx.Err() != nil {
				err := fmt.Errorf("ib: %s: connect: %w: %w: the other half has not answered", p.way(), transport.ErrPeerGone,
					context.Cause(ctx))
				p.fail(err)
				return err
			}
			time.Sleep(connectPoll)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Err(); err != nil {
		return err
	}
	p.connected = true
	go p.progress()
	return nil
}

// start takes the queue pair to its ready states and says hello.
func (p *Peer) start(a *address, again bool) error {
	path, err := p.path(a, p.packets)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Err(); err != nil {
		return err
	}
	if again {
		p.generation++
		p.restarts.Add(1)
		p.queue.posted = ring{}
		if err := p.qp.Reset(); err != nil {
			return err
		}
		if err := p.qp.Init(p.port.adapter.port); err != nil {
			return err
		}
	}
	if err := p.qp.Receive(p.port.receives(), receiveID|p.generation); err != nil {
		return err
	}
	if err := p.qp.Ready(path); err != nil {
		return err
	}
	r := request{work: verbs.Work{ID: p.generation, Opcode: verbs.WriteImmediate, Imm: hello, Flags: verbs.Signaled,
		Remote: a.scratch, RKey: a.scratchKey}}
	p.queue.posted.push(&r)
	return p.qp.Send(&r.work)
}

// connecting takes completions before the goroutine runs. failed means that the hello was not acknowledged and must be
// said again.
func (p *Peer) connecting() (failed bool, err error) {
	var wc [16]verbs.Completion
	for {
		n, err := p.cq.Poll(wc[:])
		if err != nil || n == 0 {
			return failed, err
		}
		for i := range wc[:n] {
			c := &wc[i]
			switch {
			case c.ID&^receiveID != p.generation || c.Status == verbs.Flushed:
				// of an earlier start, or behind the hello's failure
			case c.Status == verbs.RetryExceeded && (p.packets == 0 || p.packets == 1 && p.helloCame):
				failed = true
			case c.Status != verbs.Success:
				p.fail(completionError(c, p.way(), p.port.patience()))
				return false, p.Err()
			case c.ID&receiveID != 0:
				p.packets++
				p.receive(c)
			default:
				p.helloSent = true
				p.mu.Lock()
				p.queue.posted.pop()
				p.mu.Unlock()
			}
		}
		if err := p.arrive(); err != nil {
			p.fail(err)
			return false, err
		}
	}
}
