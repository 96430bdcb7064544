package executor

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/link"
)

// outbox holds what this rank has pushed into port channels to one rank of another host, in order.
type outbox struct {
	p      *ports
	peer   int
	link   *link.Link
	posted atomic.Uint64 // posts so far
	given  atomic.Uint64 // posts whose source may be reused: the link has them, or they were dropped
	halted atomic.Bool   // posts are dropped

	mu      sync.Mutex // guards the fields below
	more    sync.Cond
	queue   []post
	closing bool
	over    sync.WaitGroup
}

// post is one operation. A put has n bytes at src; an add has n 0 and adds delta; a store has a value, too.
type post struct {
	dst   transport.Remote
	src   device.Ptr
	n     int64
	kind  postKind
	value uint64
	wake  func() // called when it is given
}

type postKind uint8

const (
	postPut postKind = iota
	postAdd
	postStore
)

func newOutbox(p *ports, peer int, link *link.Link) *outbox {
	o := &outbox{p: p, peer: peer, link: link}
	o.more.L = &o.mu
	o.over.Go(o.serve)
	return o
}

// push does not block.
func (o *outbox) push(x post) {
	o.mu.Lock()
	o.queue = append(o.queue, x)
	o.posted.Add(1)
	o.mu.Unlock()
	o.more.Signal()
}

// serve gives posts to the link until close, after which the queue is empty.
func (o *outbox) serve() {
	debug.SetPanicOnFault(true) // a caller's buffer may be unmapped
	var batch []post
	for {
		o.mu.Lock()
		for len(o.queue) == 0 && !o.closing {
			o.more.Wait()
		}
		batch, o.queue = o.queue, batch[:0]
		o.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for i := range batch {
			x := &batch[i]
			if !o.halted.Load() {
				if err := o.give(x); err != nil {
					o.halted.Store(true)
					o.p.lost(o.peer, err)
				}
			}
			o.given.Add(1)
			x.wake()
		}
		clear(batch)
	}
}

func (o *outbox) give(x *post) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: a put panicked: %v", collective.ErrAborted, p)
		}
	}()
	switch x.kind {
	case postAdd:
		return o.link.Add(x.dst, x.value)
	case postStore:
		return o.link.Store(x.dst, x.value)
	}
	return o.link.Write(x.dst, x.src, x.n)
}

// close drains the queue and closes the link.
func (o *outbox) close() error {
	o.mu.Lock()
	o.closing = true
	o.mu.Unlock()
	o.more.Signal()
	o.over.Wait()
	return o.link.Close()
}
