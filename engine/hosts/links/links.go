// Package links connects the ranks of a communicator over a network, pair by pair, at the first use.
//
//  1. A rank that needs a peer makes its half of the connection (transport.Port.NewPeer) and sends a hello: the address
//     of the half, and an offer, for example the keys of the memory that the peer may write.
//  2. A rank that gets a hello makes its half too, if it has none, and answers with its own hello. A goroutine of its
//     process does that, so the peer may be in any call, or in none.
//  3. The rank that has both hellos connects.
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
	"sync"
	"time"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/transport"
)

// Config configures Links. Offer and Ready are called once for each peer, Offer first, from any goroutine, for several
// peers at the same time.
type Config struct {
	Bootstrap bootstrap.Bootstrap
	Port      transport.Port
	// Tag is that of the hellos: each owner of Links in a Bootstrap has its own.
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
			return &Error{p, fmt.Errorf("it has not answered within %v: %w", l.cfg.Timeout, ctx.Err())}
		case <-l.ctx.Done():
			return &Error{p, transport.ErrClosed}
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

// Error is the failure of a connection.
type Error struct {
	Peer int
	Err  error
}

// Error names the peer.
func (e *Error) Error() string { return fmt.Sprintf("connecting rank %d: %v", e.Peer, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Kind gives an error of the network one of the kinds of package collective.
func Kind(err error) error {
	switch {
	case errors.Is(err, transport.ErrPeerGone):
		return fmt.Errorf("%w: %w", collective.ErrPeerDead, err)
	case errors.Is(err, transport.ErrPeerClosed) || errors.Is(err, transport.ErrClosed):
		return fmt.Errorf("%w: %w", collective.ErrAborted, err)
	}
	return collective.Kind(err)
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
			e.fail(peer, err)
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
			e.fail(peer, err)
		}
	})
	select {
	case <-e.ready:
		return e.err
	default:
		return nil
	}
}

func (e *end) fail(peer int, err error) {
	e.err = &Error{peer, err}
	close(e.ready)
}

// answer waits for the hello of one peer and connects.
func (l *Links) answer(peer int) {
	var b []byte
	for {
		var err error
		if b, err = l.cfg.Bootstrap.Recv(l.ctx, peer, l.cfg.Tag); err == nil {
			break
		}
		if !errors.Is(err, bootstrap.ErrTimeout) || l.ctx.Err() != nil {
			return // the peer is gone, or Close
		}
	}
	ctx, stop := context.WithTimeout(l.ctx, l.cfg.Timeout)
	defer stop()
	if l.hello(ctx, peer) != nil {
		return
	}
	e := l.end(peer)
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		e.fail(peer, fmt.Errorf("%w: a hello of %d bytes", bootstrap.ErrProtocol, len(b)))
		return
	}
	n := binary.LittleEndian.Uint32(b)
	err := e.peer.Connect(ctx, b[4:4+n])
	if err == nil {
		err = l.cfg.Ready(peer, e.peer, b[4+n:])
	}
	if err != nil {
		e.fail(peer, err)
		return
	}
	close(e.ready)
}
