// Package links connects the ranks of a communicator over a network, pair by pair, at the first use.
//
//  1. A rank that needs a peer makes its half of the connection (transport.Port.NewPeer) and sends a hello: the address
//     of the half, and an offer, for example the keys of the memory that the peer may write.
//  2. A rank that gets a hello makes its half too, if it has none, and answers with its own hello. A goroutine of its
//     process does that, so the peer may be in any call, or in none.
//  3. The rank that has both hellos connects.
//  4. A rank that fails in any of these steps sends a refusal with the reason, which ends the connection on the other
//     side.
//
// Both ranks may begin at the same time: each sends one hello and gets one.
//
// # Lifetime and threads
//
// Links belongs to one rank. Any goroutine may call its methods. Close must come before the Close of the Port.
package links

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/link"
)

// Config configures Links. Offer and Ready are called once for each peer, Offer first, from any goroutine, for several
// peers at the same time.
type Config struct {
	Bootstrap bootstrap.Bootstrap
	Port      transport.Port
	// Tag is the bootstrap tag of the hellos. Owners of Links that share a Bootstrap need different tags.
	Tag int
	// Timeout bounds the connection of one peer.
	Timeout time.Duration
	// Offer returns what the peer's Ready gets.
	Offer func(peer int, p transport.Peer) ([]byte, error)
	// Ready is called with the peer's offer when p is connected.
	Ready func(peer int, p transport.Peer, offer []byte) error
}

// Links are the connections of one rank.
type Links struct {
	cfg   Config
	rank  int
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu   sync.Mutex
	ends map[int]*end
}

// end is this rank's half of a connection.
type end struct {
	once  sync.Once
	peer  transport.Peer
	over  sync.Once
	ready chan struct{} // closed when the connection is made, or has failed with err
	err   error
}

// New starts to answer the hellos of the ranks on other hosts.
func New(cfg Config) *Links {
	l := &Links{cfg: cfg, rank: cfg.Bootstrap.Rank(), ends: map[int]*end{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	hosts := cfg.Bootstrap.Hosts()
	for r, h := range hosts {
		if h != hosts[l.rank] {
			l.tasks.Go(func() { l.answer(r) })
		}
	}
	return l
}

// Connect connects the peers, which are on other hosts. It returns when all are connected.
func (l *Links) Connect(ctx context.Context, peers []int) error {
	ctx, stop := context.WithTimeout(ctx, l.cfg.Timeout)
	defer stop()
	for _, p := range peers {
		if err := l.hello(ctx, p); err != nil {
			return err
		}
	}
	for _, p := range peers {
		e := l.end(p)
		select {
		case <-e.ready:
			if e.err != nil {
				return e.err
			}
		case <-ctx.Done():
			return l.failed(p, fmt.Errorf("it has not answered within %v: %w", l.cfg.Timeout, ctx.Err()))
		case <-l.ctx.Done():
			return l.failed(p, transport.ErrClosed)
		}
	}
	return nil
}

// Close ends all connections. Waiting calls of Connect end.
func (l *Links) Close() error {
	l.stop()
	l.tasks.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, e := range l.ends {
		if e.peer != nil {
			errs = append(errs, e.peer.Close())
		}
	}
	l.ends = map[int]*end{}
	return errors.Join(errs...)
}

// failed blames a rank of the bootstrap: a wire makes an error of its communicator of it.
func (l *Links) failed(peer int, err error) error {
	return fault.Blame("link", peer, "connecting rank %d: %w", bootstrap.NameOf(l.cfg.Bootstrap, peer), err)
}

// Kind gives an error of the network one of the kinds of package collective.
func Kind(err error) error {
	switch {
	case errors.Is(err, transport.ErrPeerGone):
		return fmt.Errorf("%w: %w", collective.ErrPeerDead, err)
	case errors.Is(err, link.ErrStuck):
		return fmt.Errorf("%w: %w", collective.ErrTimeout, err)
	case errors.Is(err, transport.ErrPeerClosed) || errors.Is(err, transport.ErrClosed):
		return fmt.Errorf("%w: %w", collective.ErrAborted, err)
	}
	return bootstrap.Kind(err)
}

func (l *Links) end(peer int) *end {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.ends[peer]
	if e == nil {
		e = &end{ready: make(chan struct{})}
		l.ends[peer] = e
	}
	return e
}

// hello makes this rank's half and sends its hello, once.
func (l *Links) hello(ctx context.Context, peer int) error {
	e := l.end(peer)
	e.once.Do(func() {
		p, err := l.cfg.Port.NewPeer()
		if err != nil {
			l.refuse(peer, err)
			return
		}
		e.peer = p
		offer, err := l.cfg.Offer(peer, p)
		if err == nil {
			address := p.Address()
			b := binary.LittleEndian.AppendUint32(nil, uint32(len(address)))
			err = l.cfg.Bootstrap.Send(ctx, peer, l.cfg.Tag, append(append(b, address...), offer...))
		}
		if err != nil {
			l.refuse(peer, err)
		}
	})
	select {
	case <-e.ready:
		return e.err
	default:
		return nil
	}
}

// finish ends the making of a connection. Only the first call has an effect; the result is whether this is it.
func (l *Links) finish(peer int, err error) (first bool) {
	e := l.end(peer)
	e.over.Do(func() {
		first = true
		if err != nil {
			e.err = l.failed(peer, err)
		}
		close(e.ready)
	})
	return first
}

// refusal is the length of an address that no hello has. The reason follows it.
const refusal = math.MaxUint32

// refuseWait bounds the sending of a refusal.
const refuseWait = 500 * time.Millisecond

// refuse fails a connection on both sides.
func (l *Links) refuse(peer int, err error) {
	if !l.finish(peer, err) {
		return
	}
	ctx, stop := context.WithTimeout(l.ctx, refuseWait)
	defer stop()
	_ = l.cfg.Bootstrap.Send(ctx, peer, l.cfg.Tag, append(binary.LittleEndian.AppendUint32(nil, refusal), err.Error()...))
}

// answer waits for the hello of one peer and connects. Until that is done it receives a refusal.
func (l *Links) answer(peer int) {
	ctx, stop := context.WithCancel(l.ctx) // of the connection
	defer stop()
	for connecting := false; ; {
		b, err := l.cfg.Bootstrap.Recv(ctx, peer, l.cfg.Tag)
		switch {
		case ctx.Err() != nil:
			return // connected, failed, or Close
		case errors.Is(err, bootstrap.ErrTimeout):
		case errors.Is(err, bootstrap.ErrClosed) && connecting: // messages that it sent before may still arrive
			<-ctx.Done()
			return
		case err == nil && len(b) >= 4 && binary.LittleEndian.Uint32(b) == refusal:
			err = fmt.Errorf("%w: it could not connect: %s", transport.ErrPeerClosed, b[4:])
			fallthrough
		case err != nil:
			l.finish(peer, err)
			return
		case !connecting:
			connecting = true
			l.tasks.Go(func() {
				defer stop()
				l.connect(ctx, peer, b)
			})
		}
	}
}

// connect connects to a peer that has sent hello b.
func (l *Links) connect(ctx context.Context, peer int, b []byte) {
	ctx, stop := context.WithTimeout(ctx, l.cfg.Timeout)
	defer stop()
	if l.hello(ctx, peer) != nil {
		return
	}
	e := l.end(peer)
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		l.refuse(peer, fmt.Errorf("%w: a hello of %d bytes", bootstrap.ErrProtocol, len(b)))
		return
	}
	n := binary.LittleEndian.Uint32(b)
	err := e.peer.Connect(ctx, b[4:4+n])
	if err == nil {
		err = l.cfg.Ready(peer, e.peer, b[4+n:])
	}
	if err != nil {
		l.refuse(peer, err)
		return
	}
	l.finish(peer, nil)
}
