package tcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/internal/sockets"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/peer"
)

// maxPending is the maximum number of concurrent handshakes. For one more the oldest is dropped (see sockets.Lobby),
// and its dialler retries.
const maxPending = 256

// listener admits connections to the endpoints of this process, and dials the endpoints of others. It serves the
// Peers of a Port, and the exchanges of others.
type listener struct {
	timeout time.Duration // bounds a dial and an exchange
	log     *slog.Logger
	socket  net.Listener
	addr    netip.AddrPort
	wg      sync.WaitGroup
	lobby   *sockets.Lobby
	refused sockets.Tally
	closed  atomic.Bool // set under mu

	mu        sync.Mutex // guards the fields below
	endpoints map[uint64]*endpoint
	conns     map[net.Conn]struct{} // accepted ones
}

// endpoint is what a credential admits to. serve serves one connection; from is what its dialler gave.
type endpoint struct {
	secret [32]byte
	serve  func(s *stream, from uint64) error
}

// listen starts a listener on one address; port 0 chooses a port. It rejects a wildcard address.
func listen(at netip.AddrPort, timeout time.Duration, log *slog.Logger) (*listener, error) {
	if !at.Addr().IsValid() || at.Addr().IsUnspecified() {
		return nil, fmt.Errorf("tcp: listen on %v: choose one address of this host, not a wildcard", at)
	}
	s, err := sockets.Listen("tcp", at.String())
	if err != nil {
		return nil, fmt.Errorf("tcp: listen on %v: %w: choose another with GOCCL_SOCKET_IFNAME or WithListenAddress", at,
			sockets.Explain(err))
	}
	l := &listener{timeout: timeout, log: log, socket: s, addr: s.Addr().(*net.TCPAddr).AddrPort(),
		lobby: sockets.NewLobby(maxPending), endpoints: map[uint64]*endpoint{}, conns: map[net.Conn]struct{}{}}
	l.wg.Go(l.accept)
	return l, nil
}

// newEndpoint makes a credential with which peers can connect.
func (l *listener) newEndpoint(serve func(*stream, uint64) error) Credential {
	c := Credential{Endpoint: peer.NewID()}
	_, _ = rand.Read(c.Secret[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endpoints[c.Endpoint] = &endpoint{c.Secret, serve}
	return c
}

// removeEndpoint rejects further connections with the endpoint's credential; existing ones remain.
func (l *listener) removeEndpoint(endpoint uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.endpoints, endpoint)
}

// endpoint returns nil if there is none with the id.
func (l *listener) endpoint(id uint64) *endpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endpoints[id]
}

// accept accepts connections until the listener is closed.
func (l *listener) accept() {
	for {
		c, err := l.socket.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors: a connection must end first.
			if times, report := l.refused.Count("accept"); report {
				l.log.Warn("goccl: tcp: cannot accept a connection; raise the limit of open files (ulimit -n)", "err", err,
					"times", times)
			}
			l.lobby.Evict()
			time.Sleep(10 * time.Millisecond)
			continue
		}
		pending := l.lobby.Enter(c)
		if pending == nil || !l.track(c) {
			continue
		}
		l.wg.Go(func() {
			defer l.untrack(c)
			l.admit(c, pending)
		})
	}
}

// track records c for close. If the listener is closed, it closes c and returns false.
func (l *listener) track(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		_ = c.Close()
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

func (l *listener) untrack(c net.Conn) {
	_ = c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// admit does the handshake with one dialler, bounded by its timeout and by the lobby, and serves the connection.
func (l *listener) admit(c net.Conn, pending *sockets.Pending) {
	s, e, from, err := admit(c, time.Now().Add(min(handshakeTimeout, l.timeout)), pending.Greeted, l.endpoint)
	if !pending.Leave() && err == nil {
		err = errors.New("dropped for lack of room")
	}
	if err == io.EOF { // nothing was said: a peer asks whether this process is alive
		return
	}
	if err != nil {
		kind := "silence"
		if errors.Is(err, ErrAuth) {
			kind = "authentication"
		}
		if times, report := l.refused.Count(kind); report && !l.closed.Load() {
			l.log.Warn("goccl: tcp: connection refused", "peer", c.RemoteAddr(), "err", err, "times", times)
		}
		return
	}
	sockets.Tune(c, 0)
	if err := e.serve(s, from); err != nil && !l.closed.Load() {
		l.log.Warn("goccl: tcp: a connection was refused", "peer", c.RemoteAddr(), "err", err)
	}
}

// retry calls try again while it ends without a verdict, because the other listener is full or its host is busy, until
// ctx ends.
func (l *listener) retry(ctx context.Context, try func() error) error {
	for pause := time.Millisecond; ; pause = min(2*pause, maxPause) {
		err := try()
		if err == nil || !errors.As(err, new(errRetry)) || l.closed.Load() {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: the listener refuses more connections, or is too busy (%w)", ctx.Err(), err)
		}
	}
}

// maxPause is the longest pause between two attempts of retry.
const maxPause = 50 * time.Millisecond

// greet connects to the endpoint of cred at to and does the handshake, once. from is an endpoint of this side, by which
// the other side distinguishes its diallers.
func (l *listener) greet(ctx context.Context, to netip.AddrPort, cred *Credential, from uint64) (*stream, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: l.addr.Addr().AsSlice(), Zone: l.addr.Addr().Zone()}}
	if !l.addr.Addr().IsLoopback() && to.Addr().IsLoopback() || l.addr.Addr().Is4() != to.Addr().Is4() {
		d.LocalAddr = nil
	}
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, sockets.Explain(err)
	}
	sockets.Tune(c, 0)
	deadline := time.Now().Add(handshakeTimeout)
	if end, ok := ctx.Deadline(); ok && end.Before(deadline) {
		deadline = end
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	s, err := greet(c, deadline, cred, from)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return s, nil
}

// close ends the connections and waits for the goroutines.
func (l *listener) close() error {
	l.mu.Lock()
	first := !l.closed.Swap(true)
	l.mu.Unlock()
	var err error
	if first {
		err = l.socket.Close()
		l.lobby.Close()
		l.mu.Lock()
		for c := range l.conns {
			_ = c.Close()
		}
		l.mu.Unlock()
	}
	l.wg.Wait()
	return err
}

// NewExchange makes a credential whose holders can ask answer once per connection. Requests and replies have at most
// 64 KiB; both are encrypted. from is what the asker gave.
func (p *Port) NewExchange(answer func(request []byte, from uint64) ([]byte, error)) Credential {
	return p.listener.newEndpoint(func(s *stream, from uint64) error {
		_ = s.conn.SetDeadline(time.Now().Add(p.opt.Timeout))
		request, err := s.receive()
		if err != nil {
			return err
		}
		reply, err := answer(request, from)
		if err != nil {
			return err
		}
		return s.send(reply)
	})
}

// EndExchange rejects further requests.
func (p *Port) EndExchange(c Credential) { p.listener.removeEndpoint(c.Endpoint) }

// Exchange asks the holder of an exchange's credential at to.
func (p *Port) Exchange(ctx context.Context, to netip.AddrPort, cred Credential, from uint64, request []byte) (
	reply []byte, err error) {
	if len(request) > maxMessage {
		return nil, fmt.Errorf("tcp: exchange: a request of %d bytes, at most %d allowed", len(request), maxMessage)
	}
	ctx, cancel := context.WithTimeout(ctx, p.opt.Timeout)
	defer cancel()
	err = p.listener.retry(ctx, func() error {
		s, err := p.listener.greet(ctx, to, &cred, from)
		if err != nil {
			return err
		}
		defer func() { _ = s.conn.Close() }()
		end, _ := ctx.Deadline()
		_ = s.conn.SetDeadline(end)
		if err := s.send(request); err != nil {
			return errRetry{err}
		}
		if reply, err = s.receive(); errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: it was refused: the other side's log says why", transport.ErrPeerClosed)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("tcp: exchange with %v: %w", to, err)
	}
	return reply, nil
}
