package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/cmd/goccl/internal/tally"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/metrics"
	"github.com/goccl/goccl/watch/observe"
)

type watchCommand struct {
	JSON  bool          `name:"json" help:"As JSON: one snapshot a line."`
	Once  bool          `help:"Look once, and end with status 1 if something hangs, 3 if no communicator was seen."`
	Every time.Duration `default:"1s" help:"Time between two looks (default ${default})."`
	Stall time.Duration `default:"2s" help:"How long an operation may take before it counts as held up (default ${default})."`
	PID   []int         `name:"pid" help:"Only these processes (default: all of this user, of all users as root)."`
	Dump  []string      `help:"Also dumps of PyTorch's flight recorder: names of files, with * and ?."`
	Join  []string      `help:"Also what goccl watch --http sees on these hosts: HOST:PORT."`
	HTTP  string        `name:"http" placeholder:"HOST:PORT" help:"Serve a page, snapshot.json and metrics there; :PORT is this host alone."`
	RAS   string        `name:"ras" placeholder:"HOST:PORT" help:"Answer clients of NCCL's RAS there; its own port is localhost:28028."`
	OTLP  string        `name:"otlp" placeholder:"URL" help:"Send the metrics to OpenTelemetry there, like http://localhost:4318."`
	Log   string        `placeholder:"FILE" help:"Append lines of JSON: what hangs, slows down, comes and goes; - for the error output."`
}

// Run looks until it is interrupted.
func (c *watchCommand) Run(ctx context.Context, s *streams) error {
	if c.Every <= 0 || c.Stall <= 0 {
		return &exitError{2, errors.New("--every and --stall: use positive times, such as 1s")}
	}
	if c.Once && c.serves() {
		return &exitError{2, errors.New("--once looks once and serves nothing: leave out --http, --ras, --otlp and --log")}
	}
	w := &observe.Watcher{Stall: c.Stall, Sources: []observe.Source{observe.NewProcesses(c.PID...)}}
	if len(c.Dump) > 0 {
		w.Sources = append(w.Sources, &observe.Dumps{Patterns: c.Dump})
	}
	if len(c.Join) > 0 {
		w.Sources = append(w.Sources, &observe.Remote{URLs: c.Join})
	}
	defer func() { _ = w.Close() }()
	if c.Once {
		return c.once(s, w)
	}
	out, err := c.outputs(ctx, s)
	if err != nil {
		return err
	}
	defer out.close()
	keys := (<-chan byte)(nil)
	if terminal(s) && !c.JSON {
		var restore func()
		keys, restore = fullScreen(s)
		defer restore()
	}
	return c.look(ctx, s, w, out, keys)
}

// once looks once.
func (c *watchCommand) once(s *streams, w *observe.Watcher) error {
	now := w.Look()
	if err := c.show(s, now, nil, false); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(now.Verdicts, (*fault.Verdict).Hang):
		return &exitError{1, errors.New("watch: something hangs")}
	case len(now.Communicators) == 0:
		return &exitError{3, errors.New("watch: no communicator was seen")}
	}
	return nil
}

// look looks until the context ends or q is among the keys, which are nil without a full screen. An output that is no
// terminal gets nothing if there are others.
func (c *watchCommand) look(ctx context.Context, s *streams, w *observe.Watcher, out *outputs, keys <-chan byte) error {
	quiet := !terminal(s) && !c.JSON && c.serves()
	tick := time.Tick(c.Every)
	for before := (*observe.Snapshot)(nil); ; {
		now := w.Look()
		out.show(ctx, now, before)
		if !quiet {
			if err := c.show(s, now, before, keys != nil); err != nil {
				return err
			}
		}
		before = now
		select {
		case err := <-out.failed:
			return err
		case k := <-keys:
			if k == 'q' || k == 'Q' {
				return nil
			}
		case <-tick:
		case <-ctx.Done():
			return nil
		}
	}
}

// serves reports whether there are outputs besides standard output.
func (c *watchCommand) serves() bool {
	return c.HTTP != "" || c.RAS != "" || c.OTLP != "" || c.Log != ""
}

// show writes a snapshot. On a full screen it takes the place of the one before, and lines end at the edge.
func (c *watchCommand) show(s *streams, now, before *observe.Snapshot, full bool) error {
	if c.JSON {
		return json.NewEncoder(s.out).Encode(now)
	}
	if !full {
		return observe.Table(s.out, now, before, colored(s))
	}
	var b bytes.Buffer
	b.WriteString("\x1b[H\x1b[2J")
	err := observe.Table(&b, now, before, colored(s))
	b.WriteString("q ends\n")
	for line := range bytes.Lines(b.Bytes()) {
		if _, e := s.out.Write(cut(line, width(s))); err == nil {
			err = e
		}
	}
	return err
}

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
