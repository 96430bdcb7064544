package watch

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/collective"
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
	if now := s.last.Load(); now != nil {
		return now
	}
	return &Snapshot{Time: time.Now(), Communicators: []*Communicator{}, Verdicts: []*collective.Verdict{}}
}

// Handler serves the page, its data, and metrics if there are any.
func (s *Server) Handler(metrics http.Handler) http.Handler {
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
	return mux
}

// Listen opens an address. Without a host it is this host alone.
func Listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%s: use HOST:PORT or :PORT: %w", address, err)
	}
	if host == "" {
		host = "localhost"
	}
	return net.Listen("tcp", net.JoinHostPort(host, port))
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
