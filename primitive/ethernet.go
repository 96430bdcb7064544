package primitive

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/goccl/goccl/transport/tcp"
)

// ethernet is the Context's Node, started when first asked for.
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
	n, err := tcp.Listen(netip.AddrPortFrom(at, 0), tcp.Options{Timeout: c.opt.timeout, Log: c.opt.log, Lost: c.sessionLost, Blame: c.dead,
		Blamed: func(rank int) {
			go c.Abort(&Error{Op: "ethernet", Rank: c.Rank(), Peer: rank, Info: "a peer says so, and leaves", Err: ErrPeerDead})
		}})
	if err != nil {
		return nil, err
	}
	c.node = n
	return n, nil
}

// startedEthernet is the Node, or nil when there is none.
func (c *Context) startedEthernet() *tcp.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.node
}

// SetListenAddress chooses the address of the Ethernet listener as long as none was chosen and it is not started. A Communicator proposes the
// address by which its bootstrap reaches the others.
func (c *Context) SetListenAddress(a netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.node == nil && !c.opt.listen.IsValid() && os.Getenv("GOCCL_SOCKET_IFNAME") == "" {
		c.opt.listen = a
	}
}

// listenAddress is the first address of the interface that GOCCL_SOCKET_IFNAME names, or of the first one that is up and not loopback, or
// loopback. IPv4 comes before IPv6, link-local addresses are passed over.
func listenAddress() (netip.Addr, error) {
	name := os.Getenv("GOCCL_SOCKET_IFNAME")
	all, err := net.Interfaces()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("list network interfaces: %w", err)
	}
	var v6, loop netip.Addr
	for _, i := range all {
		if name != "" && i.Name != name || i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			ip := p.Addr()
			switch {
			case err != nil || ip.IsLinkLocalUnicast():
			case ip.IsLoopback() && name == "":
				if !loop.IsValid() || ip.Is4() && !loop.Is4() {
					loop = ip
				}
			case ip.Is4():
				return ip, nil
			case !v6.IsValid():
				v6 = ip
			}
		}
	}
	switch {
	case v6.IsValid():
		return v6, nil
	case name != "":
		return netip.Addr{}, fmt.Errorf("%w: GOCCL_SOCKET_IFNAME=%s: no such interface is up with an address", ErrInvalid, name)
	case loop.IsValid():
		return loop, nil
	}
	return netip.Addr{}, fmt.Errorf("%w: no network interface is up", ErrUnsupported)
}

// dead is the rank whose death the Context was aborted for, or NoRank.
func (c *Context) dead() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var e *Error
	if errors.Is(c.cause, ErrPeerDead) && errors.As(c.cause, &e) {
		return e.Peer
	}
	return NoRank
}

// sessionLost aborts the Context when a peer that wrote into this process vanished.
func (c *Context) sessionLost(endpoint, from uint64, err error) {
	c.mu.Lock()
	peer, what := NoRank, ""
	for r := range c.owned {
		if conn, ok := r.(*Connection); ok && conn.local.id == endpoint && conn.remote.id == from {
			peer, what = conn.PeerRank(), conn.remote.String()
		}
	}
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return
	}
	// Another goroutine, because the Node forbids callbacks into it and hooks may do anything.
	go c.Abort(&Error{Op: "ethernet session", Rank: c.Rank(), Peer: peer, Info: what, Err: fmt.Errorf("%w: %w", ErrPeerDead, err)})
}
