package hostwire

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/engine/hosts/links"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport"
)

// Config configures a Wire.
type Config struct {
	collective.Job
	Net transport.Net
	// NIC is the index of the adapter.
	NIC int
	// Peers is the number of ranks that Connect is called with at set-up.
	Peers int
}

// Wire is a wire.Wire of the host device.
type Wire struct {
	name    string // of the communicator
	net     string // of the network, for errors
	rank    int
	timeout time.Duration // of a phase; 0: none
	stall   time.Duration // of a phase, after which a warning is logged; 0: never
	port    transport.Port
	links   *links.Links
	peers   []*peer // by rank; nil for ranks of this host
	slot    int64   // bytes of a slot in each peer's inbox
	policy  *wait.Policy
	explain func(*collective.Error) *fault.Verdict // Config.Explain
	onFail  func(error)                            // Config.OnFailure

	bell    wait.Cell     // grows with every event that a phase may wait for
	abort   atomic.Uint32 // abort word of all waits; nonzero once aborted is set
	aborted abort.Cause
	failed  abort.Cause    // the first failure of a phase; every later phase returns it
	pending atomic.Int64   // phases enqueued and not over
	cut     atomic.Bool    // a phase ended by Abort
	tasks   sync.WaitGroup // goroutines that watch the peers, until closing
	closing chan struct{}  // closed by Close
	run     sync.Mutex     // held while a phase runs
	order   host.Order     // of the phases; guarded by the caller of Run
	closed  bool           // guarded by run
}

var _ wire.Wire = (*Wire)(nil)

// New opens the adapter. It exchanges nothing with peers.
func New(cfg Config) (*Wire, error) {
	n, hosts, rank := cfg.Bootstrap.WorldSize(), cfg.Bootstrap.Hosts(), cfg.Bootstrap.Rank()
	w := &Wire{name: cfg.Name, rank: rank, timeout: cfg.OpTimeout, stall: cfg.StallWarning,
		peers: make([]*peer, n), slot: slotFor(cfg.Peers),
		policy: wait.For(1, bootstrap.LocalSize(cfg.Bootstrap)+1), explain: cfg.Explain, onFail: cfg.OnFailure,
		closing: make(chan struct{}), net: cfg.Net.Name()}
	for r := range n {
		if hosts[r] != hosts[rank] {
			w.peers[r] = &peer{rank: r}
		}
	}
	var err error
	if w.port, err = cfg.Net.Open(cfg.NIC); err != nil {
		return nil, err
	}
	w.links = links.New(links.Config{Bootstrap: cfg.Bootstrap, Port: w.port, Tag: tags.Links, Timeout: cfg.Timeout,
		Offer: w.offer,
		Ready: w.ready})
	return w, nil
}

// Connect implements wire.Wire.
func (w *Wire) Connect(ctx context.Context, peers []int) error {
	var missing []int
	for _, p := range peers {
		if !w.peers[p].connected.Load() {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	err := w.links.Connect(ctx, missing)
	if peer := fault.PeerOf(err); peer >= 0 {
		return w.error(wire.Op{Name: "connect"}, peer, links.Kind(err))
	}
	return err
}

// Run implements wire.Wire.
func (w *Wire) Run(s device.Stream, op wire.Op, ph *wire.Phase) error {
	hs, ok := s.(*host.Stream)
	if !ok {
		return fmt.Errorf("%w: the stream belongs to %v, the communicator to the host device", collective.ErrInvalidArgument,
			s.Device().ID())
	}
	if err := w.order.Enter(hs); err != nil {
		return err
	}
	w.pending.Add(1)
	ran := false
	err := hs.Launch(op.Name, 1, func(*host.Block) error {
		ran = true
		defer w.pending.Add(-1)
		return w.execute(op, ph)
	})
	if err != nil && !ran {
		w.pending.Add(-1)
	}
	return err
}

// execute runs a phase on the calling goroutine.
func (w *Wire) execute(op wire.Op, ph *wire.Phase) error {
	w.run.Lock()
	defer w.run.Unlock()
	err := w.Err()
	if err == nil {
		err = w.exchange(op, ph)
	}
	if err == nil {
		return nil
	}
	if w.abort.Load() != 0 {
		w.cut.Store(true)
	}
	if w.failed.Set(err) && w.onFail != nil && w.abort.Load() == 0 {
		w.onFail(err)
	}
	return err
}

// exchange runs a phase, and turns a panic, for example because a buffer is not mapped, into an error.
func (w *Wire) exchange(op wire.Op, ph *wire.Phase) (err error) {
	x := exchange{w: w, op: op, ph: ph, limit: wait.Limit{Deadline: wait.After(w.timeout), Abort: &w.abort}}
	if w.stall > 0 {
		x.limit.Stall = &wait.Stall{After: w.stall, Report: x.warn}
	}
	defer func() {
		if p := recover(); p != nil {
			err = w.error(op, -1, fmt.Errorf("%w: the operation panicked: %w", collective.ErrAborted,
				&host.PanicError{Value: p, Stack: debug.Stack()}))
		}
	}()
	return x.run()
}

func (w *Wire) error(op wire.Op, peer int, err error) error {
	e := &collective.Error{Comm: w.name, Op: op.Name, Rank: w.rank, Peer: peer, Seq: op.Seq, Err: err}
	if w.explain != nil && op.Seq != 0 {
		e.Verdict = w.explain(e)
	}
	return e
}

// ring tells the running phase that something may have changed.
func (w *Wire) ring(uint64) { w.bell.Add(1) }

// watch rings when the link to p breaks.
func (w *Wire) watch(p *peer) {
	select {
	case <-p.t.Failed():
		w.ring(0)
	case <-w.closing:
	}
}

// Abort implements wire.Wire.
func (w *Wire) Abort(cause error) {
	if w.aborted.Set(cause) {
		w.abort.Store(1)
		w.bell.Add(1)
	}
}

// Err implements wire.Wire.
func (w *Wire) Err() error {
	if err := w.failed.Err(); err != nil {
		return err
	}
	return w.aborted.Err()
}

// Drain implements wire.Wire.
func (w *Wire) Drain(ctx context.Context) error {
	tick := time.Tick(time.Millisecond)
	for w.pending.Load() != 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick:
		}
	}
	if err := w.failed.Err(); err != nil {
		return err
	}
	for _, p := range w.peers { // unflushed puts may be lost at Close
		if p != nil && p.connected.Load() && p.t.Flush(ctx) != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// Unfinished implements wire.Wire.
func (w *Wire) Unfinished() bool { return w.pending.Load() != 0 || w.cut.Load() }

// Close implements wire.Wire.
func (w *Wire) Close() error {
	w.Abort(w.error(wire.Op{Name: "communicator"}, -1, fmt.Errorf("%w: %w", collective.ErrAborted, collective.ErrClosed)))
	w.run.Lock()
	defer w.run.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	close(w.closing)
	errs := []error{w.links.Close()}
	w.tasks.Wait()
	for _, p := range w.peers {
		if p != nil {
			errs = append(errs, p.close())
		}
	}
	return errors.Join(append(errs, w.port.Close())...)
}
