package observe

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/sockets"
)

//go:embed page.html
var page []byte

// Server shows the latest snapshot to others. Show may run beside the handlers.
type Server struct {
	last atomic.Pointer[Snapshot]
}

// Show makes a snapshot the latest one. It must not change afterwards.
func (s *Server) Show(now *Snapshot) { s.last.Store(now) }

// Snapshot returns the latest snapshot, which must not be changed.
func (s *Server) Snapshot() *Snapshot {
	return cmp.Or(s.last.Load(),
		&Snapshot{Time: time.Now(), Communicators: []*Communicator{}, Verdicts: []*fault.Verdict{}})
}

// Handler serves the page, its data, and metrics if there are any, to requests that name this host: by an address, its
// name, localhost, or name, if that is not empty. A page in a browser could name it otherwise (DNS rebinding).
func (s *Server) Handler(metrics http.Handler, name string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy",
			"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'")
		h.Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("GET /snapshot.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_ = json.NewEncoder(w).Encode(s.Snapshot())
	})
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	own, _ := os.Hostname()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = strings.Trim(r.Host, "[]")
		}
		_, err = netip.ParseAddr(host)
		if err != nil && !slices.ContainsFunc([]string{"localhost", own, name}, func(known string) bool {
			return known != "" && strings.EqualFold(known, strings.TrimSuffix(host, "."))
		}) {
			http.Error(w, "this is not the host of that name: use its address, or give the name to goccl watch --http NAME:PORT",
				http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// Listen opens an address. Without a host it is this host alone. Processes of one user can share an address; each
// connection is then one's of them.
func Listen(address string, shared bool) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%s: use HOST:PORT or :PORT: %w", address, err)
	}
	host = cmp.Or(host, "localhost")
	var how net.ListenConfig
	if shared {
		how.Control = func(_, _ string, c syscall.RawConn) (err error) {
			e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
			return errors.Join(e, err)
		}
	}
	l, err := how.Listen(context.Background(), "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	return &bounded{l, sockets.NewLobby(mostConnections)}, nil
}

// mostConnections is how many connections a listener has. A new one ends the oldest, so that nobody can hold all of
// them.
const mostConnections = 128

// bounded is a listener with a bounded number of connections.
type bounded struct {
	net.Listener
	lobby *sockets.Lobby
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &boundedConn{c, b.lobby.Enter(c)}, nil
}

type boundedConn struct {
	net.Conn
	place *sockets.Pending
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	c.place.Leave()
	return c.Conn.Close()
}

// ServeHTTP serves until the context ends.
func ServeHTTP(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
