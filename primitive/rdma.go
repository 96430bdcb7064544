package primitive

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/ib"
	"github.com/goccl/goccl/transport/link"
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

// rdmaPort is an opened RDMA adapter: what the endpoints and memories of one of IB0 to IB7 share in a Context.
type rdmaPort struct {
	cfg      RDMAConfig
	port     transport.Port
	receiver *link.Receiver
	sources  link.Sources
}

// openRDMA returns the adapter of t. The first call opens it.
func (c *Context) openRDMA(t Transport, cfg RDMAConfig) (*rdmaPort, error) {
	cfg = RDMAConfig{max(0, cfg.Port), max(0, cfg.GIDIndex), max(0, cfg.SendDepth), max(0, cfg.ReceiveDepth),
		max(0, cfg.QueueDepth)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if p := c.rdma[t]; p != nil {
		if cfg != p.cfg && cfg != (RDMAConfig{}) {
			return nil, fmt.Errorf("%w: %v was opened with other options: %+v", ErrInvalid, t, p.cfg)
		}
		return p, nil
	}
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
	if err != nil {
		if errors.Is(err, ib.ErrUnavailable) {
			err = fmt.Errorf("%w: %v: %w: use ipc on one host, ethernet between hosts", ErrUnsupported, t, err)
		}
		return nil, err
	}
	p := &rdmaPort{cfg: cfg, port: port}
	p.receiver = link.NewReceiver(port, link.ReceiverOptions{Timeout: c.opt.timeout,
		Lost: func(from uint64, err error) { c.sessionLost(t, from, err) }, Blamed: c.blamed})
	if c.rdma == nil {
		c.rdma = map[Transport]*rdmaPort{}
	}
	c.rdma[t] = p
	return p, nil
}

// startedRDMA returns the adapter of t, or nil if no endpoint has opened it.
func (c *Context) startedRDMA(t Transport) *rdmaPort {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rdma[t]
}

func (p *rdmaPort) close() error { return errors.Join(p.receiver.Close(), p.port.Close()) }

// listenRDMA prepares an endpoint: peers ask the Context's Node for the other half of a connection.
func (c *Context) listenRDMA(e *Endpoint, cfg RDMAConfig) error {
	p, err := c.openRDMA(e.transport, cfg)
	if err != nil {
		return err
	}
	n, err := c.ethernet()
	if err != nil {
		return err
	}
	e.addr, e.cred = n.Addr(), n.NewExchange(p.receiver.Accept)
	e.id = e.cred.Endpoint
	return nil
}

func (c *Context) connectRDMA(ctx context.Context, conn *Connection) (transport.Link, error) {
	n, err := c.ethernet()
	if err != nil {
		return nil, err
	}
	p := c.startedRDMA(conn.Transport())
	if p == nil {
		return nil, ErrClosed
	}
	remote := conn.remote
	opt := link.Options{Sources: &p.sources, Blame: c.dead, Broken: func(err error) { c.connectionBroken(conn, err) }}
	if !reachable(conn.local.dev) {
		opt.Source = conn.local.dev
	}
	return link.Dial(ctx, p.port, func(ctx context.Context, request []byte) ([]byte, error) {
		return n.Exchange(ctx, remote.addr, remote.cred, conn.local.id, request)
	}, opt)
}

// rdmaRegion is a local memory's registration with one adapter.
type rdmaRegion struct {
	port   *rdmaPort
	region transport.Region // nil: the adapter does not reach the memory
}

// key is what peers import; empty for memory that must be staged.
func (r *rdmaRegion) key() []byte {
	if r.region == nil {
		return nil
	}
	return r.region.Key()
}

// registerRDMA registers local memory with the adapter of t, once.
func (m *RegisteredMemory) registerRDMA(t Transport) (*rdmaRegion, error) {
	p, err := m.ctx.openRDMA(t, RDMAConfig{})
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if r := m.rdma[t]; r != nil {
		return r, nil
	}
	var dev device.Device
	if !m.mapped {
		dev = m.dev
	}
	r := &rdmaRegion{port: p}
	if r.region, err = p.port.Register(dev, m.ptr, m.size); err == nil {
		p.sources.Add(m.ptr, m.size, r.region)
	} else if r.region = nil; !errors.Is(err, transport.ErrNotReachable) {
		return nil, err
	}
	if m.rdma == nil {
		m.rdma, m.name = map[Transport]*rdmaRegion{}, randomID()
	}
	p.receiver.Register(m.name, m.wireMemory())
	m.rdma[t] = r
	return r, nil
}

// adapters lists the adapters with which a memory is registered when it is serialised: the one that its flags name, or,
// of several, those that endpoints have opened.
func (m *RegisteredMemory) adapters() (ts []Transport) {
	several := (m.flags & AllIBTransports).Count() > 1
	for t := IB0; t <= IB7; t++ {
		if m.flags.Has(t) && (!several || m.ctx.startedRDMA(t) != nil) {
			ts = append(ts, t)
		}
	}
	return ts
}

func (r *rdmaRegion) close(name uint64) error {
	r.port.receiver.Unregister(name)
	if r.region == nil {
		return nil
	}
	r.port.sources.Remove(r.region)
	return r.region.Close()
}

// importRDMA makes a memory known to a connection's link.
func (m *RegisteredMemory) importRDMA(conn *Connection) (transport.Remote, error) {
	t := conn.remote.transport // the peer's adapter, which is another than here
	var name uint64
	var key []byte
	var at transport.Remote
	if m.dev != nil {
		r, err := m.registerRDMA(t)
		if err != nil {
			return at, err
		}
		name, key = m.name, r.key()
	} else {
		var ok bool
		if key, ok = m.origin.keys[t]; !ok {
			return at, fmt.Errorf("%w: the memory was serialised before its owner had an endpoint of %v: make the endpoint "+
				"first, or register the memory for this transport alone", ErrInvalid, t)
		}
		name, at.Offset = m.origin.name, uint64(m.origin.offset)
	}
	at.Region = name
	return at, conn.importOnce(name, key)
}

// registerSource registers local memory with a connection's adapter, which then reads it without staging.
func (m *RegisteredMemory) registerSource(conn *Connection) error {
	if t := conn.Transport(); t.IsIB() && m.dev != nil && m.flags.Has(t) {
		_, err := m.registerRDMA(t)
		return err
	}
	return nil
}

// importOnce imports a peer's memory at its first use.
func (c *Connection) importOnce(name uint64, key []byte) error {
	if _, ok := c.imported.Load(name); ok {
		return nil
	}
	if len(key) == 0 {
		key = nil
	}
	if err := c.link.(*link.Link).Import(name, key); err != nil {
		return err
	}
	c.imported.Store(name, true)
	return nil
}
