package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/collective/fault"
	"github.com/goccl/goccl/engine/hosts/links"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/link"
)

// network has the connections of an executor on the host device to ranks of other hosts, over which the port channels
// of its plans run. Every plan and every two ranks with a port channel between them use the same connection.
//
//   - A thread block gives puts and signals to the link of the peer (transport/link), which applies them there in
//     order, to the memories that the plan has registered with the receiver. Sources are copied at once, so a flush has
//     nothing to wait for.
//   - A link blocks only while the peer's process applies nothing. It applies commands whatever its rank executes, so
//     two ranks cannot wait for each other here.
type network struct {
	e        *Executor
	name     string // of the transport.Net, for errors
	port     transport.Port
	receiver *link.Receiver
	links    *links.Links
	out      []atomic.Pointer[outbound] // by rank; nil: not connected
	plans    uint64                     // opened so far, the same on all ranks

	mu    sync.Mutex // guards the fields below
	ends  map[int]*link.End
	over  bool // halt was called
	tasks sync.WaitGroup
}

// outbound is the way to one rank.
type outbound struct {
	link   *link.Link
	halted atomic.Bool // operations are dropped: the link is broken, or the executor was aborted
}

func openNetwork(e *Executor) (*network, error) {
	port, err := e.net.Open(e.nic)
	if err != nil {
		return nil, err
	}
	n := &network{e: e, name: e.net.Name(), port: port, out: make([]atomic.Pointer[outbound], e.size),
		ends: map[int]*link.End{}}
	n.receiver = link.NewReceiver(port, link.ReceiverOptions{
		Lost: func(from uint64, err error) { n.lost(int(from), err) }})
	n.links = links.New(links.Config{Bootstrap: e.boot, Port: port, Tag: tags.PlanLinks, Timeout: connectTimeout,
		Offer: n.offer, Ready: n.ready})
	return n, nil
}

func (n *network) offer(peer int, half transport.Peer) ([]byte, error) {
	end, err := n.receiver.Prepare(half, uint64(peer))
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ends[peer] = end
	return end.Offer(), nil
}

func (n *network) ready(peer int, _ transport.Peer, offer []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	l, err := n.ends[peer].Open(offer, link.Options{Timeout: n.e.timeout,
		Broken: func(err error) { n.lost(peer, err) }})
	if err != nil {
		return err
	}
	delete(n.ends, peer)
	o := &outbound{link: l}
	o.halted.Store(n.over)
	n.out[peer].Store(o)
	return nil
}

// connect connects this rank with the peers, which do the same.
func (n *network) connect(ctx context.Context, peers []int) error {
	err := n.links.Connect(ctx, peers)
	if peer := fault.PeerOf(err); peer >= 0 {
		return &collective.Error{Comm: n.e.name, Op: "connect", Rank: n.e.rank, Peer: peer,
			Err: links.Kind(fmt.Errorf("over %s: %w", n.name, err))}
	}
	return err
}

// send gives an operation to the link of a peer. After a failure, operations are dropped until the executor's Abort.
func (n *network) send(peer int, give func(*link.Link) error) {
	o := n.out[peer].Load()
	if o.halted.Load() {
		return
	}
	if err := give(o.link); err != nil {
		o.halted.Store(true)
		n.lost(peer, err)
	}
}

// linkGrace is how long a broken link waits for the communicator's own report of the peer's death, which blames the
// right rank.
const linkGrace = 300 * time.Millisecond

// lost ends the executor because a link broke.
func (n *network) lost(peer int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return
	}
	n.tasks.Go(func() {
		select {
		case <-n.e.ending:
		case <-time.After(linkGrace):
			n.e.Abort(&collective.Error{Comm: n.e.name, Op: "plan", Rank: n.e.rank, Peer: peer,
				Err: links.Kind(fmt.Errorf("the %s link to rank %d broke: %w", n.name, peer, err))})
		}
	})
}

// halt ends what senders wait for. Later operations are dropped.
func (n *network) halt() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
	for r := range n.out {
		if o := n.out[r].Load(); o != nil {
			o.halted.Store(true)
			o.link.Hurry()
		}
	}
}

// close follows an Abort. What a link has is sent before it is closed, if the peer lives.
func (n *network) close() error {
	if n == nil {
		return nil
	}
	errs := make([]error, len(n.out))
	var wg sync.WaitGroup
	for r := range n.out {
		if o := n.out[r].Load(); o != nil {
			wg.Go(func() { errs[r] = o.link.Close() })
		}
	}
	wg.Wait()
	n.tasks.Wait()
	return errors.Join(append(errs, n.receiver.Close(), n.links.Close(), n.port.Close())...)
}
