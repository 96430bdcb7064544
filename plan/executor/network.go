package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts/links"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
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
	port, err := e.cfg.Net.Open(e.cfg.NIC)
	if err != nil {
		return nil, err
	}
	n := &network{e: e, name: e.cfg.Net.Name(), port: port, out: make([]atomic.Pointer[outbound], e.size),
		ends: map[int]*link.End{}}
	n.receiver = link.NewReceiver(port, link.ReceiverOptions{
		Lost: func(from uint64, err error) { n.lost(int(from), err) }})
	n.links = links.New(links.Config{Bootstrap: e.cfg.Bootstrap, Port: port, Tag: tags.PlanLinks, Timeout: connectTimeout,
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
	l, err := n.ends[peer].Open(offer, link.Options{Timeout: n.e.cfg.OpTimeout,
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
		return &collective.Error{Comm: n.e.cfg.Name, Op: "connect", Rank: n.e.rank, Peer: peer,
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
			n.e.Abort(&collective.Error{Comm: n.e.cfg.Name, Op: "plan", Rank: n.e.rank, Peer: peer,
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

// meet makes the group of this host's ranks, and the network's end if there are other hosts. It is collective; later
// calls do nothing.
func (e *Executor) meet(ctx context.Context) (err error) {
	if e.here != nil {
		return nil
	}
	e.local = bootstrap.LocalRanks(e.cfg.Bootstrap)
	if len(e.local) == e.size {
		e.here = e.cfg.Bootstrap
		return nil
	}
	group, err := bootstrap.SplitByHost(ctx, e.cfg.Bootstrap)
	if err != nil {
		return err
	}
	bootstrap.NameAsAbove(group, true)
	var n *network
	var r *rings
	if e.cfg.Device.ID().Kind == device.CUDA {
		r, err = openRings(e)
	} else {
		n, err = openNetwork(e)
	}
	if err != nil {
		return errors.Join(err, group.Close())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.here, e.network, e.rings = group, n, r
	if cause := e.cause.Err(); cause != nil {
		n.halt()
		r.halt(cause)
	}
	return nil
}

// connect connects this rank with the ranks of other hosts to which a plan has links.
func (e *Executor) connect(ctx context.Context, peers []int) error {
	if e.rings != nil {
		return e.rings.connect(ctx, peers)
	}
	return e.network.connect(ctx, peers)
}

// otherHost reports whether rank r is on another host than this rank.
func (e *Executor) otherHost(r int) bool { return e.hosts != nil && e.hosts[r] != e.hosts[e.rank] }

// reaches returns an error if the plan uses memory of a rank on another host. Only port channels lead there. hosts are
// the hosts by rank.
func reaches(p *plan.Plan, hosts []int) error {
	for r := range p.GPUs {
		elsewhere := func(q int) bool { return hosts[q] != hosts[r] }
		g := &p.GPUs[r]
		if i := slices.IndexFunc(g.Peers(plan.MemoryChannel), elsewhere); i >= 0 {
			return refuse(r, g.Peers(plan.MemoryChannel)[i], fmt.Sprint("memory channel ", i))
		}
		for i, sw := range g.SwitchGroups() {
			if k := slices.IndexFunc(sw.Ranks, elsewhere); k >= 0 {
				return refuse(r, sw.Ranks[k], fmt.Sprint("switch channel ", i))
			}
		}
		for i := range g.RemoteBuffers {
			b := &g.RemoteBuffers[i]
			if elsewhere(b.Rank) && slices.Contains(b.Access, plan.MemoryChannel) {
				return refuse(r, b.Rank, fmt.Sprint("memory access to remote buffer ", i))
			}
		}
	}
	return nil
}

func refuse(rank, peer int, what string) error {
	return fmt.Errorf("%w: %s of rank %d leads to rank %d, which is on another host, where only port channels lead: use "+
		"a plan for this number of hosts (goccl plan build NAME --hosts N)", collective.ErrUnsupported, what, rank, peer)
}

// across says how this rank reaches a rank of another host, for errors; "" for one of this host.
func (e *Executor) across(r int) string {
	if r < 0 || !e.otherHost(r) {
		return ""
	}
	return fmt.Sprintf(", on another host (%s link),", e.cfg.Net.Name())
}
