package primitive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/ipc"
	"github.com/goccl/goccl/transport/link"
)

// Connection is one direction between two endpoints, seen from the local one: the host writes to the peer's memory,
// asynchronously and in the order of the calls. Each side makes its own Connection.
type Connection struct {
	ctx           *Context
	local, remote *Endpoint
	link          transport.Link
	peer, tag     atomic.Int64
	closed        atomic.Bool
	imported      sync.Map // names of the peer's memories that the link of a network knows
}

// Connect makes a connection from a local endpoint to a remote one, which may be of this process. Both must have the
// same transport, or RDMA adapters.
func (c *Context) Connect(local, remote *Endpoint) (*Connection, error) {
	return c.connect(context.Background(), local, remote, NoRank, 0)
}

func (c *Context) connect(parent context.Context, local, remote *Endpoint, peer, tag int) (*Connection, error) {
	const op = "connect"
	if err := c.usable(op); err != nil {
		return nil, err
	}
	switch {
	case local == nil || remote == nil:
		return nil, invalid(op, "an endpoint is nil")
	case local.ctx != c:
		return nil, invalid(op, "the local endpoint %v is not of this Context", local)
	case local.transport != remote.transport && !(local.transport.IsIB() && remote.transport.IsIB()):
		return nil, invalid(op, "%v and %v have different transports", local, remote)
	}
	conn := &Connection{ctx: c, local: local, remote: remote}
	conn.peer.Store(int64(peer))
	conn.tag.Store(int64(tag))
	ctx, cancel := c.bounded(parent)
	defer cancel()
	var err error
	if local.transport.network() {
		conn.link, err = c.dial(ctx, conn)
	} else {
		conn.link, err = c.connectIPC(local, remote)
	}
	if err != nil {
		return nil, c.wrap(err, op, peer)
	}
	if err := c.own(conn); err != nil {
		return nil, errors.Join(c.wrap(err, op, peer), conn.link.Close())
	}
	return conn, nil
}

func (c *Context) connectIPC(local, remote *Endpoint) (transport.Link, error) {
	if !local.SameHost(remote) {
		return nil, fmt.Errorf("%w: %v and %v are on different hosts: use ethernet", ErrInvalid, local, remote)
	}
	if local.owner.Kind != remote.owner.Kind {
		return nil, fmt.Errorf("%w: ipc joins devices of one kind, not %v and %v: use ethernet", ErrInvalid, local.owner,
			remote.owner)
	}
	if reachable(local.dev) {
		return ipc.NewHostLink(), nil
	}
	if err := checkPeerAccess(local.owner, remote.owner); err != nil {
		return nil, err
	}
	s, adder, err := c.stream(local.dev)
	if err != nil {
		return nil, err
	}
	return ipc.NewStreamLink(s, adder), nil
}

// Context, Transport, Local and Remote return what the connection was made of.
func (c *Connection) Context() *Context    { return c.ctx }
func (c *Connection) Transport() Transport { return c.local.transport }
func (c *Connection) Local() *Endpoint     { return c.local }
func (c *Connection) Remote() *Endpoint    { return c.remote }

// Device returns the device that holds the local endpoint's memory.
func (c *Connection) Device() device.Device { return c.local.dev }

// PeerRank returns the rank at the other end. It returns NoRank if the connection was made without a Communicator and
// SetPeer was not called.
func (c *Connection) PeerRank() int { return int(c.peer.Load()) }

// Tag returns the tag that the Communicator gave the connection.
func (c *Connection) Tag() int { return int(c.tag.Load()) }

// SetPeer sets the peer's rank for errors.
func (c *Connection) SetPeer(rank int) { c.peer.Store(int64(rank)) }

func (c *Connection) wrap(err error, op string) error {
	if err == nil {
		return nil
	}
	switch {
	case errors.Is(err, transport.ErrPeerGone), errors.Is(err, link.ErrStuck):
		err = fmt.Errorf("%w: %w", ErrPeerDead, err)
	case errors.Is(err, transport.ErrClosed), errors.Is(err, transport.ErrPeerClosed), errors.Is(err, device.ErrClosed):
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	case errors.Is(err, transport.ErrBounds), errors.Is(err, transport.ErrNotReachable):
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return c.ctx.wrap(err, op, c.PeerRank())
}

// place returns the location of dst+off as the link addresses it, after a bounds check for n bytes.
func (c *Connection) place(op string, dst *RegisteredMemory, off, n uint64) (transport.Remote, error) {
	if dst == nil {
		return transport.Remote{}, invalid(op, "the destination is nil")
	}
	if !dst.inBounds(off, n) {
		return transport.Remote{}, invalid(op, "%d bytes at offset %d of a destination of %d bytes", n, off, dst.size)
	}
	ctx, cancel := c.ctx.bounded(context.Background())
	defer cancel()
	r, err := dst.remote(ctx, c)
	return r.Add(off), err
}

// Write copies size bytes from src, local memory, to dst, memory of the peer. src must not change before a Flush.
func (c *Connection) Write(dst *RegisteredMemory, dstOff uint64, src *RegisteredMemory, srcOff, size uint64) error {
	const op = "write"
	if src == nil || !src.inBounds(srcOff, size) {
		return invalid(op, "%d bytes at offset %d of the source", size, srcOff)
	}
	to, err := c.place(op, dst, dstOff, size)
	if err != nil {
		return c.wrap(err, op)
	}
	if err := src.registerSource(c); err != nil {
		return c.wrap(err, op)
	}
	from, err := src.mapOn(context.Background(), c.local.dev)
	if err != nil {
		return c.wrap(err, op)
	}
	return c.wrap(c.link.Write(to, from.Add(int64(srcOff)), int64(size)), op)
}

// AtomicAdd adds delta to the uint64 at off of dst, after all earlier writes. off and the address must be multiples of
// 8.
func (c *Connection) AtomicAdd(dst *RegisteredMemory, off, delta uint64) error {
	const op = "atomic add"
	to, err := c.word(op, dst, off)
	if err != nil {
		return c.wrap(err, op)
	}
	return c.wrap(c.link.Add(to, delta), op)
}

// UpdateAndSync sets *src and stores the same value in the uint64 at off of dst, after all earlier writes. *src is this
// side's copy of the word; src may be nil.
func (c *Connection) UpdateAndSync(dst *RegisteredMemory, off uint64, src *uint64, value uint64) error {
	const op = "update and sync"
	to, err := c.word(op, dst, off)
	if err != nil {
		return c.wrap(err, op)
	}
	if src != nil {
		*src = value
	}
	return c.wrap(c.link.Store(to, value), op)
}

func (c *Connection) word(op string, dst *RegisteredMemory, off uint64) (transport.Remote, error) {
	to, err := c.place(op, dst, off, 8)
	if err == nil && (off%8 != 0 || to.Ptr%8 != 0) {
		err = invalid(op, "offset %d is not aligned to 8", off)
	}
	return to, err
}

// Flush waits until all earlier operations are complete at the peer and sources may change. A timeout of 0 means the
// Context's. It also ends when the Context is aborted.
func (c *Connection) Flush(timeout time.Duration) error {
	if timeout <= 0 {
		timeout = c.ctx.opt.timeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return c.FlushContext(ctx)
}

// FlushContext is Flush with ctx instead of a timeout.
func (c *Connection) FlushContext(ctx context.Context) error {
	if l, ok := c.link.(*ipc.HostLink); ok { // always complete when the call returns
		return c.wrap(l.Err(), "flush")
	}
	ctx, cancel := c.ctx.untilAbort(ctx)
	defer cancel(nil)
	err := c.link.Flush(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return c.wrap(err, "flush")
}

// Err returns the error that broke the connection, or nil.
func (c *Connection) Err() error { return c.wrap(c.link.Err(), "connection") }

// Close ends the connection.
func (c *Connection) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.ctx.disown(c)
	return c.link.Close()
}

// untilAbort derives a context that also ends with the Context's abort, and then has the abort's cause.
func (c *Context) untilAbort(parent context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	done := c.Aborted()
	go func() {
		select {
		case <-done:
			cancel(c.stopped())
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// hostLimit returns the limit of a wait by the host.
func (c *Context) hostLimit(ctx context.Context) wait.Limit {
	end := time.Now().Add(c.opt.timeout)
	if d, ok := ctx.Deadline(); ok {
		end = d
	}
	return wait.Limit{Abort: &c.abort.Abort, Deadline: wait.AtTime(end)}
}
