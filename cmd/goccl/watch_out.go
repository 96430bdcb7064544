package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/goccl/goccl/cmd/goccl/internal/tally"
	"github.com/goccl/goccl/watch/metrics"
	"github.com/goccl/goccl/watch/observe"
)

// outputs are where goccl watch shows snapshots beside its own output.
type outputs struct {
	server observe.Server
	tally  *tally.Tally
	log    *slog.Logger
	// failed gets the first error of a server.
	failed chan error
	serves sync.WaitGroup
	ends   []func()
}

// outputs opens what the command line asks for. Addresses are printed, because a port may be 0.
func (c *watchCommand) outputs(ctx context.Context, s *streams) (*outputs, error) {
	ctx, stop := context.WithCancel(ctx)
	o := &outputs{tally: tally.New(c.Stall), failed: make(chan error, 2)}
	o.ends = append(o.ends, func() { stop(); o.serves.Wait() })
	serve := func(what, address string, f func(net.Listener) error) error {
		if address == "" {
			return nil
		}
		l, err := observe.Listen(address, false)
		if err != nil {
			if errors.As(err, new(*net.DNSError)) || errors.As(err, new(*net.AddrError)) {
				err = &exitError{2, fmt.Errorf("--%s %s: use HOST:PORT or :PORT: %w", what, address, err)}
			}
			return err
		}
		fmt.Fprintf(s.stderr, "goccl watch: %s on %s\n", what, l.Addr())
		o.serves.Go(func() {
			if err := f(l); err != nil {
				select {
				case o.failed <- fmt.Errorf("%s: %w", what, err):
				default:
				}
			}
		})
		return nil
	}
	err := serve("http", c.HTTP, func(l net.Listener) error {
		host, _, _ := net.SplitHostPort(c.HTTP)
		return observe.ServeHTTP(ctx, l, o.server.Handler(o.tally.Handler(), host))
	})
	if err == nil {
		ras := observe.RAS{Look: o.server.Snapshot, Every: 200 * time.Millisecond}
		err = serve("ras", c.RAS, func(l net.Listener) error { return ras.Serve(ctx, l) })
	}
	if err == nil {
		err = o.openLog(c.Log, s)
	}
	if err == nil && c.OTLP != "" {
		err = o.openOTLP(ctx, c.OTLP, c.Every)
	}
	if err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *outputs) openLog(path string, s *streams) error {
	switch path {
	case "":
		return nil
	case "-":
		o.log = slog.New(slog.NewJSONHandler(s.stderr, nil))
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	o.log = slog.New(slog.NewJSONHandler(f, nil))
	o.ends = append(o.ends, func() { _ = f.Close() })
	return nil
}

// lastSend bounds the last sending when the program ends.
const lastSend = 3 * time.Second

func (o *outputs) openOTLP(ctx context.Context, url string, every time.Duration) error {
	stop, err := metrics.OpenTelemetry(ctx, o.tally.Registry(), url, every)
	if err != nil {
		return err
	}
	o.ends = append(o.ends, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSend)
		defer cancel()
		_ = stop(ctx)
	})
	return nil
}

func (o *outputs) show(ctx context.Context, now, before *observe.Snapshot) {
	o.tally.Count(now)
	o.server.Show(now)
	if o.log != nil {
		observe.Log(ctx, o.log, before, now)
	}
}

func (o *outputs) close() {
	for _, end := range o.ends {
		end()
	}
}
