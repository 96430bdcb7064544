package goccl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/bootstrap"
)

// notices tell the peers that this rank has given up, where running work cannot see it by itself (algorithm.Unaware): a kernel that waits for a
// rank that was aborted would otherwise wait for its deadline.
//
//  1. Whoever aborts or closes says how far it has come: collectives, and messages sent to and received from each peer; and whether work of it was
//     cut short.
//  2. A peer that hears of work cut short ends at once. Otherwise everything that the rank has called is done on its side and will be done on
//     the peer's: the peer ends when it has called more than that, now or later.
//  3. Work that was replayed from a graph is in nobody's count. When it turns out to have been cut short, a second notice says so.
//
// A rank that ends because of a death or a deadline says nothing: its peers see the same, and know better whom to blame.
type notices struct {
	c      *Comm
	engine algorithm.Unaware

	mu          sync.Mutex
	collectives uint64   // called so far
	sent        []uint64 // messages, by peer
	received    []uint64
	left        []*departure // by peer; nil: still there
	anyLeft     bool
	said        byte // what the peers were told
	cut         bool // and that work was cut short
	closed      bool
	sending     sync.WaitGroup
}

// departure is how far a peer had come when it left.
type departure struct {
	how                         byte
	collectives, sent, received uint64 // messages: to and from this rank
}

// How a rank leaves.
const (
	leftAborted byte = iota + 1
	leftClosed
)

const (
	noticeTag     = 2 // 0 and 1 are the checker's
	noticeVersion = 1
	noticeBytes   = 27 // version, how, cut; collectives, sent, received: u64
	// noticeWait bounds what telling a peer may take, noticeFollow how long a second notice may be due.
	noticeWait   = 500 * time.Millisecond
	noticeFollow = 100 * time.Millisecond
)

// listen starts the notices of a communicator whose engine needs them.
func (c *Comm) listen() {
	u, ok := c.engine.(algorithm.Unaware)
	if !ok || c.size == 1 {
		return
	}
	c.notices = &notices{c: c, engine: u, sent: make([]uint64, c.size), received: make([]uint64, c.size), left: make([]*departure, c.size)}
	for p := range c.size {
		if p != c.rank {
			c.watch.Go(func() { c.notices.hear(p) })
		}
	}
}

// hear waits for what a peer says until the bootstrap is closed or the peer is gone.
func (n *notices) hear(peer int) {
	for {
		b, err := n.c.boot.Recv(context.Background(), peer, noticeTag)
		if errors.Is(err, bootstrap.ErrTimeout) {
			continue
		}
		if err != nil {
			return
		}
		d, cut, ok := parseNotice(b)
		if !ok {
			n.c.fate.suffer(n.blame(peer, fmt.Sprintf("rank %d has sent a notice of %d bytes that this version cannot read", peer, len(b))))
			return
		}
		if err := n.depart(peer, d, cut); err != nil {
			n.c.fate.suffer(err)
		}
	}
}

// notice is the message that a departure is; cut says that work was cut short.
func (d *departure) notice(cut bool) []byte {
	b := append(make([]byte, 0, noticeBytes), noticeVersion, d.how, 0)
	if cut {
		b[2] = 1
	}
	for _, v := range []uint64{d.collectives, d.sent, d.received} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func parseNotice(b []byte) (d *departure, cut, ok bool) {
	if len(b) != noticeBytes || b[0] != noticeVersion || b[1] < leftAborted || b[1] > leftClosed || b[2] > 1 {
		return nil, false, false
	}
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	return &departure{how: b[1], collectives: u64(3), sent: u64(11), received: u64(19)}, b[2] != 0, true
}

// depart notes that a peer has left, and is the end of this rank when it has called what the peer will not do.
func (n *notices) depart(peer int, d *departure, cut bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.left[peer], n.anyLeft = d, true
	if cut {
		return n.gone(peer)
	}
	return n.waitsFor(peer)
}

// waitsFor is the error of having called more than a peer that has left.
func (n *notices) waitsFor(peer int) error {
	d := n.left[peer]
	if n.collectives > d.collectives || n.sent[peer] > d.received || n.received[peer] > d.sent {
		return n.gone(peer)
	}
	return nil
}

func (n *notices) gone(peer int) error {
	if n.left[peer].how == leftClosed {
		return n.blame(peer, fmt.Sprintf("rank %d has closed its communicator", peer))
	}
	return n.blame(peer, fmt.Sprintf("rank %d has aborted", peer))
}

func (n *notices) blame(peer int, what string) error {
	return &Error{Comm: n.c.cfg.Name, Op: "communicator", Rank: n.c.rank, Peer: peer, Err: fmt.Errorf("%w: %s", ErrAborted, what)}
}

// count notes what is about to be enqueued, or says who will never do its part.
func (n *notices) count(reqs []algorithm.Request, collectives int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.collectives += uint64(collectives)
	for i := collectives; i < len(reqs); i++ {
		r := &reqs[i]
		if r.Peer == n.c.rank {
			continue
		}
		if r.Collective == algorithm.Send {
			n.sent[r.Peer]++
		} else {
			n.received[r.Peer]++
		}
	}
	if !n.anyLeft {
		return nil
	}
	for p, d := range n.left {
		if d == nil {
			continue
		}
		if err := n.waitsFor(p); err != nil {
			return err
		}
	}
	return nil
}

// leaving is asked before this rank ends by its own will: whether there is anything to say, and whether work will be cut short. It is nil-safe, as
// say, follow and close are.
func (n *notices) leaving() (tell, cut bool) {
	if n == nil || n.c.fate.err() != nil || n.c.engine.Err() != nil {
		return false, false
	}
	return true, n.engine.Unfinished()
}

// say tells all peers, without waiting for them.
func (n *notices) say(how byte, cut bool) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.said != 0 && (n.cut || !cut) {
		return
	}
	n.said, n.cut = how, cut
	for p := range n.c.size {
		if p == n.c.rank || n.left[p] != nil {
			continue
		}
		b := (&departure{how, n.collectives, n.sent[p], n.received[p]}).notice(cut)
		n.sending.Go(func() {
			ctx, stop := context.WithTimeout(context.Background(), noticeWait)
			defer stop()
			_ = n.c.boot.Send(ctx, p, noticeTag, b) // who cannot hear it finds out by its deadline
		})
	}
}

// flush waits until what was said is handed over, boundedly. It is nil-safe.
func (n *notices) flush() {
	if n != nil {
		n.sending.Wait()
	}
}

// follow waits, in the background, whether work was cut short after all.
func (n *notices) follow() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.cut {
		return
	}
	n.sending.Go(func() {
		for range noticeFollow / time.Millisecond {
			time.Sleep(time.Millisecond)
			n.mu.Lock()
			closed := n.closed
			n.mu.Unlock()
			if closed {
				return
			}
			if n.engine.Unfinished() {
				n.say(leftAborted, true)
				return
			}
		}
	})
}

// close says the last word, after the engine was closed, and waits until it is handed over, boundedly.
func (n *notices) close() {
	if n == nil {
		return
	}
	n.mu.Lock()
	how := n.said
	n.mu.Unlock()
	if how != 0 && n.engine.Unfinished() {
		n.say(how, true)
	}
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.flush()
}
