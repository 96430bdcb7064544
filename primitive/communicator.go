package primitive

import (
	"context"
	"errors"
	"sync"

	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
)

// Communicator makes connections, exchanges memories and builds semaphores between the ranks of a bootstrap.
//
// Calls return futures at once; the exchange continues in the background. The k-th Connect of one rank to (peer, tag)
// matches the k-th Connect of that peer, the k-th SendMemory its k-th RecvMemory, and the k-th BuildSemaphore its k-th
// BuildSemaphore. The kinds do not mix, so only calls of one kind to one (peer, tag) must have the same order on both
// sides. After a future has failed, later futures of the same kind, peer and tag may match the wrong call: use another
// tag.
//
// When a peer dies, the Communicator aborts its Context with an error that names the rank: waits on host and device
// end.
type Communicator struct {
	bs      bootstrap.Bootstrap
	ctx     *Context
	ownsCtx bool
	cancel  context.CancelCauseFunc
	life    context.Context
	wg      sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	lanes   map[laneKey]*lane
	pending []interface{ wait(context.Context) error } // the exchanges that Setup waits for
	closed  bool

	culprits uint64 // calls of Culprit
}

// laneKey identifies an ordered sequence of exchanges; a lane keeps the order in each direction.
type laneKey struct {
	kind      uint8
	peer, tag int
}

type lane struct{ sent, received chan struct{} } // closed when the latest call has sent, received

// NewCommunicator makes a Communicator over bs, which the caller keeps and closes. ctx may be nil: then the
// Communicator makes its own Context, which Close ends.
func NewCommunicator(bs bootstrap.Bootstrap, ctx *Context) *Communicator {
	c := &Communicator{bs: bs, ctx: ctx, lanes: map[laneKey]*lane{}}
	if ctx == nil {
		c.ctx, c.ownsCtx = NewContext(), true
	}
	c.ctx.SetRank(bs.Rank())
	c.life, c.cancel = context.WithCancelCause(context.Background())
	c.wg.Go(c.watch)
	return c
}

// Bootstrap returns the bootstrap given to NewCommunicator.
func (c *Communicator) Bootstrap() bootstrap.Bootstrap { return c.bs }

// Context returns the Communicator's Context.
func (c *Communicator) Context() *Context { return c.ctx }

// Rank and WorldSize return the bootstrap's values.
func (c *Communicator) Rank() int      { return c.bs.Rank() }
func (c *Communicator) WorldSize() int { return c.bs.WorldSize() }

// watch aborts the Context when a rank dies.
func (c *Communicator) watch() {
	failures := c.bs.Failures()
	defer bootstrap.StopFailures(c.bs, failures)
	for {
		select {
		case f, ok := <-failures:
			if !ok {
				return
			}
			c.ctx.Abort(failure("communicator", c.Rank(), f.Rank, f.Err))
		case <-c.life.Done():
			return
		}
	}
}

// exchange runs one call in the background. It sends the result of send (if send is not nil) and passes the received
// message to finish (if receive).
func exchange[T any](c *Communicator, kind uint8, op string, peer, tag int, send func() ([]byte, error), receive bool,
	finish func(context.Context, []byte) (T, error)) *Future[T] {
	f := newFuture[T]()
	var zero T
	if peer < 0 || peer >= c.WorldSize() || tag < 0 || tag > tags.MostOfUser {
		f.complete(zero, invalid(op, "rank %d and tag %d: ranks are 0…%d, tags 0…%d", peer, tag, c.WorldSize()-1,
			tags.MostOfUser))
		return f
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		f.complete(zero, c.ctx.wrap(ErrClosed, op, peer))
		return f
	}
	k := laneKey{kind, peer, tag}
	l := c.lanes[k]
	if l == nil {
		l = &lane{}
		c.lanes[k] = l
	}
	var sentBefore, receivedBefore, sent, received chan struct{}
	if send != nil {
		sentBefore, sent = l.sent, make(chan struct{})
		l.sent = sent
	}
	if receive {
		receivedBefore, received = l.received, make(chan struct{})
		l.received = received
	}
	c.wg.Go(func() {
		ctx, cancel := c.ctx.bounded(c.life)
		defer cancel()
		ctx, stop := c.ctx.untilAbort(ctx)
		defer stop(nil)
		v, err := func() (v T, err error) {
			if send != nil {
				err = c.send(ctx, kind, peer, tag, sentBefore, send)
				close(sent)
			}
			var data []byte
			if receive {
				if err == nil {
					data, err = c.recv(ctx, kind, peer, tag, receivedBefore)
				}
				close(received)
			}
			if err != nil {
				return v, err
			}
			return finish(ctx, data)
		}()
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		f.complete(v, c.ctx.wrap(err, op, peer))
	})
	return f
}

func (c *Communicator) send(ctx context.Context, kind uint8, peer, tag int, before chan struct{},
	send func() ([]byte, error)) error {
	data, err := send()
	if err != nil {
		return err
	}
	if err := after(ctx, before); err != nil {
		return err
	}
	return c.bs.Send(ctx, peer, tags.Primitive(kind, tag), data)
}

func (c *Communicator) recv(ctx context.Context, kind uint8, peer, tag int, before chan struct{}) ([]byte, error) {
	if err := after(ctx, before); err != nil {
		return nil, err
	}
	return c.bs.Recv(ctx, peer, tags.Primitive(kind, tag))
}

// after waits for the previous call, if there is one.
func after(ctx context.Context, before chan struct{}) error {
	if before == nil {
		return nil
	}
	select {
	case <-before:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Connect makes an endpoint from cfg and connects it with the peer's endpoint.
func (c *Communicator) Connect(cfg EndpointConfig, rank, tag int) *Future[*Connection] {
	ep, err := c.ctx.CreateEndpoint(cfg)
	if err != nil {
		f := newFuture[*Connection]()
		f.complete(nil, c.ctx.wrap(err, "connect", rank))
		return f
	}
	return c.ConnectEndpoint(ep, rank, tag)
}

// ConnectEndpoint connects a local endpoint with the peer's endpoint.
func (c *Communicator) ConnectEndpoint(ep *Endpoint, rank, tag int) *Future[*Connection] {
	return exchange(c, kindEndpoint, "connect", rank, tag,
		func() ([]byte, error) { return ep.Serialize(), nil }, true,
		func(ctx context.Context, data []byte) (*Connection, error) {
			remote, err := DeserializeEndpoint(data)
			if err != nil {
				return nil, err
			}
			return c.ctx.connect(ctx, ep, remote, rank, tag)
		})
}

// SendMemory lets the peer use local memory. The future completes when the description of the memory has been sent.
func (c *Communicator) SendMemory(m *RegisteredMemory, rank, tag int) *Future[struct{}] {
	return exchange(c, kindMemory, "send memory", rank, tag, m.Serialize, false,
		func(context.Context, []byte) (struct{}, error) { return struct{}{}, nil })
}

// RecvMemory receives the memory that the peer sends.
func (c *Communicator) RecvMemory(rank, tag int) *Future[*RegisteredMemory] {
	return exchange(c, kindMemory, "receive memory", rank, tag, nil, true,
		func(_ context.Context, data []byte) (*RegisteredMemory, error) {
			return c.ctx.DeserializeMemory(data)
		})
}

// BuildSemaphore makes a semaphore over a connection to the peer, which makes the same call.
func (c *Communicator) BuildSemaphore(conn *Connection, rank, tag int) *Future[*Semaphore] {
	var stub *SemaphoreStub
	return exchange(c, kindStub, "build semaphore", rank, tag,
		func() (data []byte, err error) {
			if stub, err = NewSemaphoreStub(conn); err != nil {
				return nil, err
			}
			return stub.Serialize()
		}, true,
		func(_ context.Context, data []byte) (*Semaphore, error) {
			remote, err := c.ctx.DeserializeSemaphoreStub(data)
			if err != nil {
				return nil, err
			}
			return NewSemaphore(stub, remote)
		})
}

// RemoteRankOf returns the peer of a connection.
func (c *Communicator) RemoteRankOf(conn *Connection) int { return conn.PeerRank() }

// TagOf returns the tag of a connection.
func (c *Communicator) TagOf(conn *Connection) int { return conn.Tag() }

// ConnectOnSetup is Connect, but Setup waits for it.
func (c *Communicator) ConnectOnSetup(rank, tag int, cfg EndpointConfig) *Future[*Connection] {
	return deferred(c, c.Connect(cfg, rank, tag))
}

// SendMemoryOnSetup is SendMemory, but Setup waits for it.
func (c *Communicator) SendMemoryOnSetup(m *RegisteredMemory, rank, tag int) {
	deferred(c, c.SendMemory(m, rank, tag))
}

// RecvMemoryOnSetup is RecvMemory, but Setup waits for it.
func (c *Communicator) RecvMemoryOnSetup(rank, tag int) *Future[*RegisteredMemory] {
	return deferred(c, c.RecvMemory(rank, tag))
}

// BuildSemaphoreOnSetup is BuildSemaphore, but Setup waits for it.
func (c *Communicator) BuildSemaphoreOnSetup(conn *Connection, rank, tag int) *Future[*Semaphore] {
	return deferred(c, c.BuildSemaphore(conn, rank, tag))
}

func deferred[T any](c *Communicator, f *Future[T]) *Future[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, f)
	return f
}

// Setup waits for all ...OnSetup calls since the last Setup and returns all their errors, deaths first. When a rank
// dies, other ranks leave, and the first error should be the cause.
func (c *Communicator) Setup(ctx context.Context) error {
	c.mu.Lock()
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	var deaths, rest []error
	for _, f := range pending {
		if err := f.wait(ctx); errors.Is(err, ErrPeerDead) {
			deaths = append(deaths, err)
		} else {
			rest = append(rest, err)
		}
	}
	return errors.Join(append(deaths, rest...)...)
}

// Close ends pending exchanges, and the Context if the Communicator made it. The bootstrap stays open.
func (c *Communicator) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	c.cancel(ErrClosed)
	c.wg.Wait()
	if c.ownsCtx {
		return c.ctx.Close()
	}
	return nil
}
