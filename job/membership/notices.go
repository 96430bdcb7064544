package membership

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
)

// Notices tell the peers that this rank has aborted or closed, for engines whose running work cannot detect that by
// itself (Engine.SeesAborts). Otherwise a kernel that waits for an aborted rank would wait until its
// deadline.
//
//  1. A rank that aborts or closes sends its counts (collectives, and messages sent to and received from each peer)
//     and whether its work was cut short.
//  2. If work was cut short, a peer that receives the notice ends at once. Otherwise the work that the rank has called
//     completes, on its side and on the peer's: the peer ends once it has called more than that, now or later.
//  3. The counts do not include work replayed from a graph. If such work turns out to have been cut short, the rank
//     sends a second notice.
//
// Where the engine's work detects aborts by itself, registered algorithms and waits for signals still do not.
// There notices are sent once an algorithm or a flat window is registered. A notice ends a peer at once if work was
// cut short, and every abort counts as such once an algorithm is registered. Waits for signals ask for the rest (Left).
//
// Property, checked in every state of a small model (test/models, abort): every rank ends, and a rank gets an
// error only if the one that left does not do its part.
//
// A rank that ends because of a death or a deadline sends no notice: its peers detect the same failure and blame the
// right rank.
type Notices struct {
	g      *Group
	engine Engine
	sees   bool        // the engine's own work detects aborts
	active atomic.Bool // notices are received and sent

	mu          sync.Mutex
	collectives uint64   // number of calls so far
	sent        []uint64 // number of messages, by peer
	received    []uint64
	left        []*departure // by peer; nil if the peer has not left
	anyLeft     bool
	told        fault.Exit // how this rank left, as sent to the peers; 0: nothing sent
	cut         bool       // a notice that work was cut short was sent
	accused     fault.Exit // what Accuse was called with, or 0
	closed      bool
	sending     sync.WaitGroup
}

// departure holds the counts of a peer when it left.
type departure struct {
	exit                        fault.Exit
	collectives, sent, received uint64 // messages: to and from this rank
}

const (
	noticeVersion = 3
	noticeBytes   = 30 // version, cut; exit: u32; collectives, sent, received: u64
	// noticeWait bounds the sending of one notice; noticeFollow is how long Follow watches.
	noticeWait   = 500 * time.Millisecond
	noticeFollow = 100 * time.Millisecond
)

// Listen makes the notices of a communicator, and starts them if its engine needs them. Without peers there are none.
func (g *Group) Listen(engine Engine) *Notices {
	if g.size == 1 {
		return nil
	}
	n := &Notices{g: g, engine: engine, sees: engine.SeesAborts(), sent: make([]uint64, g.size),
		received: make([]uint64, g.size), left: make([]*departure, g.size)}
	if !n.sees {
		n.Start()
	}
	return n
}

// Start receives the notices of the peers. Only the first call has an effect. It accepts a nil n.
func (n *Notices) Start() {
	if n != nil && !n.active.Swap(true) {
		bootstrap.Serve(context.Background(), &n.g.tasks, n.g.boot, tags.Notice, n.receive, nil)
	}
}

// Counts reports whether calls must be counted. It accepts a nil n.
func (n *Notices) Counts() bool { return n != nil && !n.sees }

// receive takes a notice of a peer.
func (n *Notices) receive(peer int, b []byte) error {
	d, cut, ok := parseNotice(b, n.g.size)
	if !ok {
		err := n.g.Fault("communicator", peer, fmt.Errorf(
			"%w: rank %d has sent a notice of %d bytes that this version cannot read", fault.ErrAborted, peer, len(b)))
		n.g.Status.EndByPeer(err)
		return err
	}
	if err := n.depart(peer, d, cut); err != nil {
		n.g.Status.EndByPeer(err)
	}
	return nil
}

// notice encodes a departure as a message. The argument cut means that work was cut short.
func (d *departure) notice(cut bool) []byte {
	b := append(make([]byte, 0, noticeBytes), noticeVersion, plain.Bit[byte](cut))
	b = binary.LittleEndian.AppendUint32(b, uint32(d.exit))
	for _, v := range []uint64{d.collectives, d.sent, d.received} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// parseNotice decodes a message of a communicator of that many ranks.
func parseNotice(b []byte, ranks int) (d *departure, cut, ok bool) {
	if len(b) != noticeBytes || b[0] != noticeVersion || b[1] > 1 {
		return nil, false, false
	}
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	d = &departure{fault.Exit(binary.LittleEndian.Uint32(b[2:])), u64(6), u64(14), u64(22)}
	return d, b[1] != 0, d.exit.Valid(ranks)
}

// depart records that a peer has left. It returns an error if this rank has called work that the peer will not do.
func (n *Notices) depart(peer int, d *departure, cut bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.left[peer], n.anyLeft = d, true
	switch {
	case cut:
		return n.gone(peer)
	case n.sees:
		return nil
	}
	return n.waitsFor(peer)
}

// waitsFor returns an error if this rank has called more than the peer, which has left.
func (n *Notices) waitsFor(peer int) error {
	d := n.left[peer]
	if n.collectives > d.collectives || n.sent[peer] > d.received || n.received[peer] > d.sent {
		return n.gone(peer)
	}
	return nil
}

func (n *Notices) gone(peer int) error {
	blamed, cause := n.left[peer].exit.Told(n.g.rank, peer, "")
	return n.g.Fault("communicator", blamed, cause)
}

// Left returns the error of op, which waits for a peer, if the peer has left. It accepts a nil n.
func (n *Notices) Left(op string, peer int) error {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.left[peer] == nil {
		return nil
	}
	e := fault.Of(n.gone(peer))
	return n.g.Fault(op, e.Peer, e.Err)
}

// Count adds requests about to be enqueued to the counts: collectives, and messages, of which of tells the peer and
// whether they are sent. It returns an error if a peer that has left will not do its part. It allocates nothing if of
// captures nothing.
func Count[R any](n *Notices, collectives int, messages []R, of func(*R) (peer int, sends bool)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.collectives += uint64(collectives)
	for i := range messages {
		switch peer, sends := of(&messages[i]); {
		case peer == n.g.rank:
		case sends:
			n.sent[peer]++
		default:
			n.received[peer]++
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

// Leaving is called before this rank aborts or closes; failed is an error of its work. It reports whether to send a
// notice, and whether work will be cut short. Like Send, Flush and Close it accepts a nil n.
func (n *Notices) Leaving(failed error) (tell, cut bool) {
	if n == nil || !n.active.Load() || n.g.Status.Err() != nil || failed != nil {
		return false, false
	}
	return true, n.engine.Unfinished()
}

// Send sends a notice to all peers, in the background. how is why this rank leaves, if Accuse has not said it.
func (n *Notices) Send(how fault.Exit, cut bool) {
	if n == nil || !n.active.Load() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.told != 0 && (n.cut || !cut) {
		return
	}
	n.told, n.cut = how, cut
	for p := range n.g.size {
		if p == n.g.rank || n.left[p] != nil {
			continue
		}
		b := (&departure{cmp.Or(n.accused, how), n.collectives, n.sent[p], n.received[p]}).notice(cut)
		n.sending.Go(func() {
			ctx, stop := context.WithTimeout(context.Background(), noticeWait)
			defer stop()
			_ = n.g.boot.Send(ctx, p, tags.Notice, b) // a peer that does not receive it fails at its deadline
		})
	}
}

// Accuse makes later notices say why this rank leaves, and which rank it blames. It accepts a nil n.
func (n *Notices) Accuse(cause error) {
	if n != nil && fault.Of(cause) != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.accused = fault.ExitOf(cause)
	}
}

// Flush waits until all notices are sent, at most noticeWait. It accepts a nil n.
func (n *Notices) Flush() {
	if n != nil {
		n.sending.Wait()
	}
}

// Follow watches, in the background, whether work is cut short after all, and then sends a second notice.
func (n *Notices) Follow() {
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
				n.Send(fault.ExitAborted, true)
				return
			}
		}
	})
}

// Close sends a last notice if necessary and waits until it is sent, at most noticeWait. It is called after the engine
// was closed.
func (n *Notices) Close() {
	if n == nil {
		return
	}
	n.mu.Lock()
	how := n.told
	n.mu.Unlock()
	if how != 0 && n.engine.Unfinished() {
		n.Send(how, true)
	}
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.Flush()
}
