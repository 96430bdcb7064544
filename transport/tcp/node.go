package tcp

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/internal/sockets"
	"github.com/goccl/goccl/transport"
)

// maxPending is the maximum number of concurrent handshakes. For one more the oldest is dropped (see sockets.Lobby),
// and its dialler retries.
const maxPending = 256

// partition is how long a peer's host may acknowledge nothing before the kernel gives it up.
const partition = 10 * time.Second

// Options configures a Node. The zero value is usable.
type Options struct {
	// Timeout bounds a Dial, the rest of a frame whose first bytes have arrived, and a write to a peer that does not
	// read; 0 is 30 s.
	Timeout time.Duration
	// Log receives warnings about refused connections; nil is slog.Default.
	Log *slog.Logger
	// Lost is called once for each session whose dialler vanished without a bye. endpoint is the dialled endpoint, from
	// the dialler's. It must not call back into the Node.
	Lost func(endpoint, from uint64, err error)
	// Blame is called when a bye is sent. It returns the rank whose death made this side leave, or a negative number.
	// Blamed gets that rank from a peer's bye, so that a side that has not detected the death itself does not take the
	// leaving peer for the dead one. Neither may call back into the Node.
	Blame  func() int
	Blamed func(rank int)
}

// Node is this process's end of the transport: a listener, the credentials it has issued and the regions that peers may
// write.
type Node struct {
	opt      Options
	listener net.Listener
	addr     netip.AddrPort
	wg       sync.WaitGroup
	lobby    *sockets.Lobby
	refused  sockets.Tally
	closed   atomic.Bool // set under mu

	mu        sync.Mutex // guards the fields below
	endpoints map[uint64]*endpoint
	conns     map[net.Conn]struct{}
	links     map[*Link]struct{}

	regionMu sync.RWMutex // guards the map, not the regions
	regions  map[uint64]*region
}

// endpoint is what a credential admits to.
type endpoint struct {
	secret [32]byte
	// serve, when not nil, serves the connection of a Peer's other half; else it is a Link's.
	serve func(s *stream, from uint64) error
}

// region is a registered memory. mu is read-locked while a frame is applied, so that Unregister is a barrier that waits
// for no peer.
type region struct {
	mu  sync.RWMutex
	mem Memory // nil once unregistered
}

// Listen starts a Node on one address; port 0 chooses a port. It rejects a wildcard address.
func Listen(at netip.AddrPort, opt Options) (*Node, error) {
	if !at.Addr().IsValid() || at.Addr().IsUnspecified() {
		return nil, fmt.Errorf("tcp: listen on %v: choose one address of this host, not a wildcard", at)
	}
	if opt.Timeout <= 0 {
		opt.Timeout = 30 * time.Second
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	l, err := sockets.Listen("tcp", at.String())
	if err != nil {
		return nil, fmt.Errorf("tcp: listen on %v: %w: choose another with GOCCL_SOCKET_IFNAME or WithListenAddress", at,
			sockets.Explain(err))
	}
	n := &Node{
		opt: opt, listener: l, addr: l.Addr().(*net.TCPAddr).AddrPort(), lobby: sockets.NewLobby(maxPending),
		endpoints: map[uint64]*endpoint{}, conns: map[net.Conn]struct{}{}, links: map[*Link]struct{}{},
		regions: map[uint64]*region{},
	}
	n.wg.Go(n.accept)
	return n, nil
}

// Addr returns the address where the Node listens.
func (n *Node) Addr() netip.AddrPort { return n.addr }

// NewEndpoint makes a credential with which peers can connect.
func (n *Node) NewEndpoint() Credential { return n.newEndpoint(nil) }

func (n *Node) newEndpoint(serve func(*stream, uint64) error) Credential {
	c := Credential{Endpoint: randomID()}
	_, _ = rand.Read(c.Secret[:])
	n.mu.Lock()
	defer n.mu.Unlock()
	n.endpoints[c.Endpoint] = &endpoint{c.Secret, serve}
	return c
}

// RemoveEndpoint rejects further connections with the endpoint's credential; existing sessions remain.
func (n *Node) RemoveEndpoint(endpoint uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.endpoints, endpoint)
}

// Register lets every authenticated peer write m. It returns the region's id, which is hard to guess.
func (n *Node) Register(m Memory) uint64 {
	n.regionMu.Lock()
	defer n.regionMu.Unlock()
	id := randomID()
	n.regions[id] = &region{mem: m}
	return id
}

// Unregister revokes that. No frame is applied to the memory after it has returned.
func (n *Node) Unregister(id uint64) {
	n.regionMu.Lock()
	r := n.regions[id]
	delete(n.regions, id)
	n.regionMu.Unlock()
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.mem = nil
	}
}

func (n *Node) region(id uint64) *region {
	n.regionMu.RLock()
	defer n.regionMu.RUnlock()
	return n.regions[id]
}

func randomID() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:])
		if id := binary.LittleEndian.Uint64(b[:]); id != 0 {
			return id
		}
	}
}

// accept accepts connections until the listener is closed.
func (n *Node) accept() {
	for {
		c, err := n.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors: a connection must end first.
			if times, report := n.refused.Count("accept"); report {
				n.opt.Log.Warn("goccl: ethernet: cannot accept a connection; raise the limit of open files (ulimit -n)", "err", err,
					"times", times)
			}
			n.lobby.Evict()
			time.Sleep(10 * time.Millisecond)
			continue
		}
		guest := n.lobby.Enter(c)
		if guest == nil || !n.track(c) {
			continue
		}
		n.wg.Go(func() {
			defer n.untrack(c)
			n.session(c, guest)
		})
	}
}

// track records c for Close. If the Node is closed, it closes c and returns false.
func (n *Node) track(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed.Load() {
		_ = c.Close()
		return false
	}
	n.conns[c] = struct{}{}
	return true
}

func (n *Node) untrack(c net.Conn) {
	_ = c.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

func (n *Node) secret(endpoint uint64) (*[32]byte, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, ok := n.endpoints[endpoint]
	if !ok {
		return nil, false
	}
	return &e.secret, true
}

// server returns the endpoint's serve; ok is false if the endpoint is gone.
func (n *Node) server(id uint64) (serve func(*stream, uint64) error, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, ok := n.endpoints[id]
	if !ok {
		return nil, false
	}
	return e.serve, true
}

// Dial connects to the endpoint of cred at to. from is the endpoint of this side, by which the peer distinguishes its
// diallers. If a connection ends without a verdict, because the listener is full or a host is busy, Dial retries until
// ctx or the Node's timeout ends.
func (n *Node) Dial(ctx context.Context, to netip.AddrPort, cred Credential, from uint64, opt LinkOptions) (*Link,
	error) {
	ctx, cancel := context.WithTimeout(ctx, n.opt.Timeout)
	defer cancel()
	var l *Link
	err := n.retry(ctx, func() (err error) {
		l, err = n.dial(ctx, to, cred, from, opt)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("tcp: dial %v: %w", to, err)
	}
	return l, nil
}

// retry calls try again while it ends without a verdict, until ctx ends.
func (n *Node) retry(ctx context.Context, try func() error) error {
	for pause := time.Millisecond; ; pause = min(2*pause, maxPause) {
		err := try()
		var again errRetry
		if err == nil || !errors.As(err, &again) || n.closed.Load() {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: the listener refuses more connections, or is too busy (%w)", ctx.Err(), err)
		}
	}
}

// maxPause is the longest pause between two attempts of Dial.
const maxPause = 50 * time.Millisecond

// greet connects to the endpoint of cred and does the handshake, once.
func (n *Node) greet(ctx context.Context, to netip.AddrPort, cred *Credential, from uint64) (*stream, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: n.addr.Addr().AsSlice(), Zone: n.addr.Addr().Zone()}}
	if !n.addr.Addr().IsLoopback() && to.Addr().IsLoopback() || n.addr.Addr().Is4() != to.Addr().Is4() {
		d.LocalAddr = nil
	}
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, sockets.Explain(err)
	}
	sockets.Tune(c, partition)
	deadline := time.Now().Add(handshakeTimeout)
	if end, ok := ctx.Deadline(); ok && end.Before(deadline) {
		deadline = end
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	s, err := greet(c, deadline, cred, from, n.opt.Timeout)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return s, nil
}

func (n *Node) dial(ctx context.Context, to netip.AddrPort, cred Credential, from uint64, opt LinkOptions) (*Link,
	error) {
	s, err := n.greet(ctx, to, &cred, from)
	if err != nil {
		return nil, err
	}
	c := s.conn
	l := newLink(n, s, opt)
	// held until the return, so that Close either finds the link and waits for its reader, or has closed the Node before
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed.Load() {
		_ = c.Close()
		return nil, transport.ErrClosed
	}
	n.conns[c], n.links[l] = struct{}{}, struct{}{}
	n.wg.Go(func() {
		defer n.untrack(c)
		l.readAcks()
	})
	return l, nil
}

func (n *Node) dropLink(l *Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.links, l)
}

// Close sends a bye on every connection, ends the connections and waits for the goroutines.
func (n *Node) Close() error {
	n.mu.Lock()
	if n.closed.Swap(true) {
		n.mu.Unlock()
		n.wg.Wait()
		return nil
	}
	links := make([]*Link, 0, len(n.links))
	for l := range n.links {
		links = append(links, l)
	}
	n.mu.Unlock()
	err := n.listener.Close()
	n.lobby.Close()
	for _, l := range links {
		_ = l.Close()
	}
	n.mu.Lock()
	for c := range n.conns {
		// A session that waits for a frame reads the end of the stream, finds the Node closed, sends a bye and ends.
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.CloseRead()
		}
	}
	n.mu.Unlock()
	n.wg.Wait()
	return err
}

// bye returns the frame of an orderly end.
func (n *Node) bye() header {
	h := header{op: opBye}
	if n.opt.Blame != nil {
		if r := n.opt.Blame(); r >= 0 {
			h.value = uint64(r) + 1
		}
	}
	return h
}

// left processes a peer's bye.
func (n *Node) left(h header) {
	if h.value != 0 && h.value <= 1<<31 && n.opt.Blamed != nil {
		n.opt.Blamed(int(h.value - 1))
	}
}
