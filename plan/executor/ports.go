package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/engine/hosts/links"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/link"
)

// ports are the connections of an executor to ranks of other hosts, over which the port channels of its plans run.
//
//   - A thread block pushes puts and signals into the outbox of the peer. It does not wait.
//   - The goroutine of the outbox gives them to the link (transport/link), in order. When a put is given, its source
//     may be reused: this is what a flush waits for.
//   - At the peer the link applies them in order to the memories that the plan has registered with the receiver.
//
// Every plan and every two ranks with a port channel between them use the same pair of links.
type ports struct {
	e        *Executor
	name     string // of the network, for errors
	port     transport.Port
	receiver *link.Receiver
	out      []*outbox // by rank; nil: not connected. Only Load changes it
	plans    uint64    // opened so far, the same on all ranks

	mu    sync.Mutex // guards changes of out, and the fields below
	over  bool
	tasks sync.WaitGroup
}

func openPorts(e *Executor) (*ports, error) {
	port, err := e.net.Open(e.nic)
	if err != nil {
		return nil, err
	}
	p := &ports{e: e, name: e.net.Name(), port: port, out: make([]*outbox, e.size)}
	p.receiver = link.NewReceiver(port, link.ReceiverOptions{
		Lost: func(from uint64, err error) { p.lost(int(from), err) }})
	return p, nil
}

// connect connects this rank with the peers, which do the same.
func (p *ports) connect(ctx context.Context, peers []int) error {
	var wg sync.WaitGroup
	var errs []error
	failed := func(peer int, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		errs = append(errs, &collective.Error{Comm: p.e.name, Op: "connect", Rank: p.e.rank, Peer: peer,
			Err: links.Kind(fmt.Errorf("connecting rank %d over %s: %w", peer, p.name, err))})
	}
	for _, peer := range peers {
		if p.out[peer] != nil {
			continue
		}
		wg.Go(func() {
			link, err := p.dial(ctx, peer)
			if err != nil {
				failed(peer, err)
				return
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.out[peer] = newOutbox(p, peer, link)
			p.out[peer].halted.Store(p.over)
		})
		wg.Go(func() {
			if err := p.accept(ctx, peer); err != nil {
				failed(peer, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (p *ports) dial(ctx context.Context, peer int) (*link.Link, error) {
	asked := false
	exchange := func(ctx context.Context, request []byte) ([]byte, error) {
		asked = true
		if err := p.e.boot.Send(ctx, peer, tags.PlanRequest, request); err != nil {
			return nil, err
		}
		return p.e.boot.Recv(ctx, peer, tags.PlanReply)
	}
	l, err := link.Dial(ctx, p.port, exchange, link.Options{Broken: func(err error) { p.lost(peer, err) }})
	if !asked {
		err = errors.Join(err, p.e.boot.Send(ctx, peer, tags.PlanRequest, nil))
	}
	return l, err
}

// accept answers the peer's request. An empty reply is a refusal, and so is an empty request.
func (p *ports) accept(ctx context.Context, peer int) error {
	request, err := p.e.boot.Recv(ctx, peer, tags.PlanRequest)
	if err == nil && len(request) == 0 {
		err = fmt.Errorf("%w: it could not open a connection", transport.ErrPeerClosed)
	}
	if err != nil {
		return err
	}
	reply, err := p.receiver.Accept(request, uint64(peer))
	return errors.Join(err, p.e.boot.Send(ctx, peer, tags.PlanReply, reply))
}

// linkGrace is how long a broken link waits for the communicator's own report of the peer's death, which blames the
// right rank.
const linkGrace = 300 * time.Millisecond

// lost ends the executor because a link broke.
func (p *ports) lost(peer int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	p.tasks.Go(func() {
		select {
		case <-p.e.ending:
		case <-time.After(linkGrace):
			p.e.Abort(&collective.Error{Comm: p.e.name, Op: "plan", Rank: p.e.rank, Peer: peer,
				Err: links.Kind(fmt.Errorf("the %s link to rank %d broke: %w", p.name, peer, err))})
		}
	})
}

// halt ends what the outboxes wait for. Posts that were not given to a link are dropped.
func (p *ports) halt() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	for _, o := range p.out {
		if o != nil {
			o.halted.Store(true)
			o.link.Hurry()
		}
	}
}

// close follows an Abort. What a link has is sent before it is closed, if the peer lives.
func (p *ports) close() error {
	if p == nil {
		return nil
	}
	errs := make([]error, len(p.out))
	var wg sync.WaitGroup
	for r, o := range p.out {
		if o != nil {
			wg.Go(func() { errs[r] = o.close() })
		}
	}
	wg.Wait()
	p.tasks.Wait()
	return errors.Join(append(errs, p.receiver.Close(), p.port.Close())...)
}
