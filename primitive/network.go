package primitive

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/ib"
	"github.com/goccl/goccl/transport/link"
	"github.com/goccl/goccl/transport/tcp"
)

// RDMAConfig holds the options of an endpoint of IB0 to IB7. Values that are not positive stand for the defaults and
// the environment (GOCCL_IB_…). All endpoints of one adapter in a Context have the options of the first.
type RDMAConfig struct {
	Port         int // port of the adapter; default: the first with a link
	GIDIndex     int // index in the port's table of addresses
	SendDepth    int // send work requests in the adapter, of one connection
	ReceiveDepth int // receives in the adapter, of one connection
	QueueDepth   int // of the completion queue: bounds both together
}

// network is an opened adapter: what the endpoints, connections and memories of Ethernet, or of one of IB0 to IB7,
// share in a Context.
type network struct {
	cfg      RDMAConfig
	port     transport.Port // of Ethernet a *tcp.Port
	receiver *link.Receiver // the peers' end of their connections to this process
	sources  link.Sources   // local memories that connections read without staging
}

// network returns the adapter of t. The first call opens it.
func (c *Context) network(t Transport, cfg RDMAConfig) (*network, error) {
	cfg = RDMAConfig{max(0, cfg.Port), max(0, cfg.GIDIndex), max(0, cfg.SendDepth), max(0, cfg.ReceiveDepth),
		max(0, cfg.QueueDepth)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if n := c.networks[t]; n != nil {
		if cfg != n.cfg && cfg != (RDMAConfig{}) {
			return nil, fmt.Errorf("%w: %v was opened with other options: %+v", ErrInvalid, t, n.cfg)
		}
		return n, nil
	}
	n := &network{cfg: cfg}
	var err error
	if t == Ethernet {
		n.port, err = c.openEthernet()
	} else {
		n.port, err = openRDMA(t, cfg)
	}
	if err != nil {
		return nil, err
	}
	n.receiver = link.NewReceiver(n.port, link.ReceiverOptions{Timeout: c.opt.timeout, Blame: c.dead, Blamed: c.blamed,
		Lost: func(from uint64, err error) { c.senderLost(t, from, err) }})
	c.networks[t] = n
	return n, nil
}

// openEthernet starts the listener. Its connections are encrypted.
func (c *Context) openEthernet() (transport.Port, error) {
	at := c.opt.listen
	if !at.IsValid() {
		var err error
		if at, err = listenAddress(); err != nil {
			return nil, err
		}
	}
	return tcp.NewNet(tcp.NetOptions{Encrypt: true, Timeout: c.opt.timeout, Log: c.opt.log}).OpenAt(at)
}

func openRDMA(t Transport, cfg RDMAConfig) (transport.Port, error) {
	env, err := setting.Read("GOCCL_IB_GID_INDEX", "GOCCL_IB_SL", "GOCCL_IB_TC", "GOCCL_IB_TIMEOUT",
		"GOCCL_IB_RETRY_CNT", "GOCCL_IB_DISABLE")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	opt := ib.Options{IB: env.IB, SendDepth: cfg.SendDepth, ReceiveDepth: cfg.ReceiveDepth,
		CompletionDepth: cfg.QueueDepth}
	if cfg.GIDIndex > 0 {
		opt.GIDIndex = cfg.GIDIndex
	}
	port, err := ib.New(opt).OpenDevice(int(t-IB0), cfg.Port)
	if errors.Is(err, ib.ErrUnavailable) {
		err = fmt.Errorf("%w: %v: %w: use ipc on one host, ethernet between hosts", ErrUnsupported, t, err)
	}
	return port, err
}

// opened returns the adapter of t, or nil if nothing has opened it.
func (c *Context) opened(t Transport) *network {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.networks[t]
}

func (n *network) close() error { return errors.Join(n.receiver.Close(), n.port.Close()) }

// exchanger is the Ethernet listener, over which the two ends of a connection, of whatever network, exchange their
// addresses.
func (c *Context) exchanger() (*tcp.Port, error) {
	n, err := c.network(Ethernet, RDMAConfig{})
	if err != nil {
		return nil, err
	}
	return n.port.(*tcp.Port), nil
}

// listen prepares an endpoint: peers ask the Context for the other half of a connection.
func (c *Context) listen(e *Endpoint, cfg RDMAConfig) error {
	if e.transport == Ethernet {
		cfg = RDMAConfig{}
	}
	n, err := c.network(e.transport, cfg)
	if err != nil {
		return err
	}
	x, err := c.exchanger()
	if err != nil {
		return err
	}
	e.addr, e.cred = x.Addr(), x.NewExchange(n.receiver.Accept)
	e.id = e.cred.Endpoint
	return nil
}

// dial makes the link of a connection over a network.
func (c *Context) dial(ctx context.Context, conn *Connection) (transport.Link, error) {
	x, err := c.exchanger()
	if err != nil {
		return nil, err
	}
	n := c.opened(conn.Transport())
	if n == nil {
		return nil, ErrClosed
	}
	opt := link.Options{Sources: &n.sources, Timeout: c.opt.timeout, Blame: c.dead, Blamed: c.blamed,
		Broken: func(err error) { // the network has lost the peer, or the peer has refused an operation
			c.Abort(failure(conn.Transport().String()+" connection", c.Rank(), conn.PeerRank(),
				fmt.Errorf("%w: %w: %v", ErrPeerDead, err, conn.remote)))
		}}
	if !reachable(conn.local.dev) {
		opt.Source = conn.local.dev
	}
	return link.Dial(ctx, n.port, func(ctx context.Context, request []byte) ([]byte, error) {
		return x.Exchange(ctx, conn.remote.addr, conn.remote.cred, conn.local.id, request)
	}, opt)
}

// blamed aborts the Context because a peer leaves after the death of another.
func (c *Context) blamed(rank int) {
	go c.Abort(failure("network", c.Rank(), rank, fmt.Errorf("%w: a peer says so, and leaves", ErrPeerDead)))
}

// dead returns the rank whose death aborted the Context, or NoRank.
func (c *Context) dead() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !errors.Is(c.cause, ErrPeerDead) {
		return NoRank
	}
	return fault.PeerOf(c.cause)
}

// senderLost aborts the Context when a peer that wrote to this process's memory has vanished.
func (c *Context) senderLost(t Transport, from uint64, err error) {
	c.mu.Lock()
	peer, err := NoRank, fmt.Errorf("%w: %w", ErrPeerDead, err)
	for r := range c.owned {
		if conn, ok := r.(*Connection); ok && conn.Transport() == t && conn.remote.id == from {
			peer, err = conn.PeerRank(), fmt.Errorf("%w: %v", err, conn.remote)
		}
	}
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return
	}
	// On another goroutine, because hooks may close the Context, which waits for the caller.
	go c.Abort(failure(t.String()+" session", c.Rank(), peer, err))
}

// registration is a local memory's registration with one network.
type registration struct {
	network *network
	region  transport.Region // nil: the network does not reach the memory, so bytes are staged
}

// key is what peers import; empty for memory that must be staged.
func (r *registration) key() []byte {
	if r.region == nil {
		return nil
	}
	return r.region.Key()
}

// register registers local memory with the network of t, once.
func (m *RegisteredMemory) register(t Transport) (*registration, error) {
	n, err := m.ctx.network(t, RDMAConfig{})
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if r := m.networks[t]; r != nil {
		return r, nil
	}
	var dev device.Device
	if !m.mapped {
		dev = m.dev
	}
	r := &registration{network: n}
	if r.region, err = n.port.Register(dev, m.ptr, m.size); err == nil {
		n.sources.Add(m.ptr, m.size, r.region)
	} else if r.region = nil; !errors.Is(err, transport.ErrNotReachable) {
		return nil, err
	}
	if m.networks == nil {
		m.networks, m.name = map[Transport]*registration{}, randomID()
	}
	if m.mapped || reachable(m.dev) {
		n.receiver.Register(m.name, link.NewHostMemory(m.ptr, m.size, m.token))
	} else {
		n.receiver.Register(m.name, link.NewDeviceMemory(m.dev, m.ptr, m.size))
	}
	m.networks[t] = r
	return r, nil
}

func (r *registration) close(name uint64) error {
	r.network.receiver.Unregister(name)
	if r.region == nil {
		return nil
	}
	r.network.sources.Remove(r.region)
	return r.region.Close()
}

// named lists the networks with which a memory is registered when it is serialised: the networks in its flags. If the
// flags name several InfiniBand adapters, only adapters that endpoints have opened. For semaphore tokens, Ethernet only
// if an endpoint has opened it.
func (m *RegisteredMemory) named() (ts []Transport) {
	for t := IB0; t <= Ethernet; t++ {
		all := !m.token
		if t.IsIB() {
			all = (m.flags & AllIBTransports).Count() == 1
		}
		if m.flags.Has(t) && (all || m.ctx.opened(t) != nil) {
			ts = append(ts, t)
		}
	}
	return ts
}

// place makes a memory known to a connection's link and returns its location there.
func (m *RegisteredMemory) place(conn *Connection) (at transport.Remote, err error) {
	t := conn.remote.transport // the peer's adapter, which is another than here
	var key []byte
	if m.dev != nil {
		r, err := m.register(t)
		if err != nil {
			return at, err
		}
		at.Region, key = m.name, r.key()
	} else {
		var ok bool
		if key, ok = m.origin.keys[t]; !ok {
			return at, fmt.Errorf("%w: the memory was serialised before its owner had an endpoint of %v: make the endpoint "+
				"first, or register the memory for this transport alone", ErrInvalid, t)
		}
		at.Region, at.Offset = m.origin.name, uint64(m.origin.offset)
	}
	if _, ok := conn.imported.Load(at.Region); ok {
		return at, nil
	}
	if len(key) == 0 {
		key = nil
	}
	if err := conn.link.(*link.Link).Import(at.Region, key); err != nil {
		return at, err
	}
	conn.imported.Store(at.Region, true)
	return at, nil
}

// registerSource registers local memory with a connection's network, which then reads it without staging.
func (m *RegisteredMemory) registerSource(conn *Connection) error {
	if t := conn.Transport(); t.network() && m.dev != nil && m.flags.Has(t) {
		_, err := m.register(t)
		return err
	}
	return nil
}
