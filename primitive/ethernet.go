package primitive

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/goccl/goccl/transport/tcp"
)

// ethernet returns the Context's Node. The first call starts it.
func (c *Context) ethernet() (*tcp.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if c.node != nil {
		return c.node, nil
	}
	at := c.opt.listen
	if !at.IsValid() {
		var err error
		if at, err = listenAddress(); err != nil {
			return nil, err
		}
	}
	n, err := tcp.Listen(netip.AddrPortFrom(at, 0),
		tcp.Options{Timeout: c.opt.timeout, Log: c.opt.log, Blame: c.dead, Blamed: c.blamed,
			Lost: func(_, from uint64, err error) { c.sessionLost(Ethernet, from, err) }})
	if err != nil {
		return nil, err
	}
	c.node = n
	return n, nil
}

// startedEthernet returns the Node, or nil if it was not started.
func (c *Context) startedEthernet() *tcp.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.node
}

// blamed aborts the Context because a peer leaves after the death of another.
func (c *Context) blamed(rank int) {
	go c.Abort(&Error{Op: "network", Rank: c.Rank(), Peer: rank, Info: "a peer says so, and leaves", Err: ErrPeerDead})
}

// dead returns the rank whose death aborted the Context, or NoRank.
func (c *Context) dead() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var e *Error
	if errors.Is(c.cause, ErrPeerDead) && errors.As(c.cause, &e) {
		return e.Peer
	}
	return NoRank
}

// sessionLost aborts the Context when a peer that wrote to this process's memory has vanished.
func (c *Context) sessionLost(t Transport, from uint64, err error) {
	c.mu.Lock()
	peer, what := NoRank, ""
	for r := range c.owned {
		if conn, ok := r.(*Connection); ok && conn.Transport() == t && conn.remote.id == from {
			peer, what = conn.PeerRank(), conn.remote.String()
		}
	}
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return
	}
	// On another goroutine, because the Node forbids calls from its callbacks and hooks may make such calls.
	go c.Abort(&Error{Op: t.String() + " session", Rank: c.Rank(), Peer: peer, Info: what,
		Err: fmt.Errorf("%w: %w", ErrPeerDead, err)})
}
