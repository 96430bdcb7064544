package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// TCP is the Bootstrap of a rank that connects to the others by sockets. Init or InitAddress must succeed before other
// methods are used; only one of them may be called, once.
type TCP struct {
	rank, world int
	opts        []Option

	mu    sync.Mutex
	state tcpState
	group *group
	early []chan PeerFailure // channels of Failures before Init
	root  *root              // in rank 0 of the address form
	// cancel ends a running Init.
	cancel context.CancelCauseFunc
}

type tcpState int

const (
	tcpNew tcpState = iota
	tcpJoining
	tcpJoined
	tcpClosed
)

var _ Bootstrap = (*TCP)(nil)

// NewTCP makes rank's end of a job of worldSize ranks. It opens no connection.
func NewTCP(rank, worldSize int, opts ...Option) *TCP {
	return &TCP{rank: rank, world: worldSize, opts: opts}
}

// Init joins the job of id. It returns when every rank has joined and can reach every other.
func (t *TCP) Init(ctx context.Context, id UniqueID) error {
	err := t.init(ctx, func(c *config) (meeting, error) {
		f, err := id.decode()
		if err != nil {
			return meeting{}, err
		}
		m := meeting{secret: f.secret[:], iface: c.iface, targets: f.targets(), maker: f.maker}
		if f.flags&flagRankZero != 0 {
			m.address = &rootAddress{host: f.addr.Addr().String(), port: f.addr.Port()}
			if a, err := parseAddress(c.commID); err == nil && bytes.Equal(secretFor(a, c.secret), m.secret) {
				m.address, m.targets = &a, a.targets() // each host resolves the name, as in InitAddress
			}
			m.weak = len(c.secret) == 0
			m.attempt, err = currentAttempt(processEnvironment)
			return m, err
		}
		m.gone = goneFrom(f.addr.Addr())
		if process.used.has(&f, t.rank) {
			return m, fmt.Errorf("%w: this process has joined a job by this UniqueID before, as rank %d: make an id for each "+
				"communicator", ErrInvalid, t.rank)
		}
		if r := liveRoot(id); r != nil {
			r.step(func(a *assembly) { a.pin(t.rank, t.world) })
		}
		return m, err
	})
	if f, decodeErr := id.decode(); err == nil && decodeErr == nil {
		process.used.add(&f, t.rank)
	}
	if r := liveRoot(id); err != nil && r != nil && !r.joined() {
		r.fail(t.rank, verdictGaveUp, fmt.Sprintf("rank %d, in the process that made the id, gave up: %v", t.rank, err))
	}
	return err
}

// InitAddress joins the job that meets at address: "ip:port", "host:port", "interface:ip:port", or "unix:@name" on one
// host. Rank 0 listens there. All ranks give the same address (the interface may differ) and the same GOCCL_SECRET.
func (t *TCP) InitAddress(ctx context.Context, address string) error {
	return t.init(ctx, func(c *config) (meeting, error) {
		a, err := parseAddress(address)
		if err != nil {
			return meeting{}, err
		}
		m := meeting{secret: secretFor(a, c.secret), iface: c.iface, targets: a.targets(), address: &a}
		if a.iface != "" {
			m.iface = "=" + a.iface
		}
		m.weak = len(c.secret) == 0 && a.unix == ""
		m.attempt, err = currentAttempt(processEnvironment)
		return m, err
	})
}

func (t *TCP) init(ctx context.Context, where func(*config) (meeting, error)) error {
	const op = "Init"
	c, err := newConfig(t.opts)
	if err != nil {
		return fail(op, t.rank, -1, err)
	}
	if t.world < 1 || t.world > MaxWorldSize {
		return fail(op, t.rank, -1, fmt.Errorf("%w: %d, want 1 to %d", ErrWorldSize, t.world, MaxWorldSize))
	}
	if t.rank < 0 || t.rank >= t.world {
		return fail(op, t.rank, -1, fmt.Errorf("%w: %d of %d ranks", ErrRankRange, t.rank, t.world))
	}
	t.mu.Lock()
	if t.state != tcpNew {
		t.mu.Unlock()
		return fail(op, t.rank, -1, fmt.Errorf("%w: Init may be called once", ErrInvalid))
	}
	t.state = tcpJoining
	ctx, t.cancel = context.WithCancelCause(ctx)
	defer t.cancel(nil)
	t.mu.Unlock()

	g, r, err := t.join(ctx, c, where)

	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && t.state == tcpClosed {
		_ = g.Close()
		err = ErrClosed
	}
	if err != nil {
		t.state = tcpClosed
		peer := -1
		if b, ok := errors.AsType[*blame](err); ok {
			peer = b.peer
		}
		return fail(op, t.rank, peer, err)
	}
	t.group, t.root, t.state = g, r, tcpJoined
	for _, ch := range t.early {
		g.obituaries.adopt(ch)
	}
	t.early = nil
	return nil
}

// in returns the group, or a Bootstrap whose operations fail before Init has succeeded.
func (t *TCP) in() Bootstrap {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.group == nil {
		return unjoined{rank: t.rank}
	}
	return t.group
}

// unjoined has the operations of a TCP that has not joined.
type unjoined struct {
	Bootstrap
	rank int
}

func (u unjoined) fail(op string) error {
	return fail(op, u.rank, -1, fmt.Errorf("%w: Init has not succeeded", ErrClosed))
}

func (u unjoined) Send(context.Context, int, int, []byte) error   { return u.fail("Send") }
func (u unjoined) Recv(context.Context, int, int) ([]byte, error) { return nil, u.fail("Recv") }
func (u unjoined) AllGather(context.Context, []byte) ([][]byte, error) {
	return nil, u.fail("AllGather")
}
func (u unjoined) Barrier(context.Context) error                      { return u.fail("Barrier") }
func (u unjoined) Sub(context.Context, []int, int) (Bootstrap, error) { return nil, u.fail("Sub") }
func (u unjoined) Hosts() []int                                       { return nil }

// Rank returns the rank given to NewTCP.
func (t *TCP) Rank() int { return t.rank }

// WorldSize returns the size given to NewTCP.
func (t *TCP) WorldSize() int { return t.world }

// Send implements Bootstrap.
func (t *TCP) Send(ctx context.Context, peer, tag int, data []byte) error {
	return t.in().Send(ctx, peer, tag, data)
}

// Recv implements Bootstrap.
func (t *TCP) Recv(ctx context.Context, peer, tag int) ([]byte, error) {
	return t.in().Recv(ctx, peer, tag)
}

// AllGather implements Bootstrap.
func (t *TCP) AllGather(ctx context.Context, data []byte) ([][]byte, error) {
	return t.in().AllGather(ctx, data)
}

// Barrier implements Bootstrap.
func (t *TCP) Barrier(ctx context.Context) error { return t.in().Barrier(ctx) }

// Sub implements Bootstrap.
func (t *TCP) Sub(ctx context.Context, ranks []int, space int) (Bootstrap, error) {
	return t.in().Sub(ctx, ranks, space)
}

// Hosts implements Bootstrap; nil before Init.
func (t *TCP) Hosts() []int { return t.in().Hosts() }

// Failures implements Bootstrap. A channel requested before Init delivers deaths after it.
func (t *TCP) Failures() <-chan PeerFailure {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.group != nil {
		return t.group.Failures()
	}
	ch := make(chan PeerFailure, min(max(0, t.world), MaxWorldSize))
	if t.state == tcpClosed {
		close(ch)
	} else {
		t.early = append(t.early, ch)
	}
	return ch
}

// stopEarly ends a subscription from before Init.
func (t *TCP) stopEarly(ch <-chan PeerFailure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.IndexFunc(t.early, func(c chan PeerFailure) bool { return c == ch }); i >= 0 {
		close(t.early[i])
		t.early = slices.Delete(t.early, i, i+1)
	}
}

// Close implements Bootstrap.
func (t *TCP) Close() error {
	t.mu.Lock()
	if t.state == tcpJoining {
		t.cancel(ErrClosed)
	}
	t.state = tcpClosed
	for _, ch := range t.early {
		close(ch)
	}
	t.early = nil
	g, r := t.group, t.root
	t.mu.Unlock()
	if g == nil {
		return nil
	}
	err := g.Close()
	if r != nil {
		<-r.done
	}
	return err
}
