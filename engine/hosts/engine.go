package hosts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
)

// Config configures an Engine.
type Config struct {
	collective.Job
	// Local makes the engine of this host's ranks. It passes names, the numbers of the ranks in the communicator, to the
	// engine's errors, and calls failed when a request of the engine has failed.
	Local func(ctx context.Context, boot bootstrap.Bootstrap, names []int, failed func(error)) (collective.Engine, error)
	// Wire makes the wire to other hosts. peers is the number of ranks that are connected at set-up.
	Wire func(peers int, failed func(error)) (wire.Wire, error)
	// Order makes work on a stream follow all earlier work of the engine.
	Order Order
	// Crowded says that so many ranks of this process are on the GPU that their streams share its queues: see Crowded.
	Crowded bool
	// Check, when not nil, is the engine's Check.
	Check func(seq uint64, reqs []collective.Request) error
	// Network names the network, for the log, and NetworkName is transport.Net's, for tables.
	Network, NetworkName string
}

// Order is the order of the engine's work over all streams.
type Order interface {
	// Enter makes later work on s follow the engine's earlier work. The engine's next work must be on s.
	Enter(s device.Stream) error
	// Leave marks the end of the engine's work so far, on the stream of the latest Enter.
	Leave(s device.Stream) error
	// Forks reports whether work on side can follow s and s then follow side: a stream that is part of a capture of a
	// graph can only do so in that capture.
	Forks(s, side device.Stream) (bool, error)
	// Wait waits until all work so far has ended, or until ctx ends.
	Wait(ctx context.Context) error
	Close() error
}

// Engine runs the collectives of one rank.
type Engine struct {
	collective.Plain
	*topology

	name    string              // the communicator's, for errors
	dev     device.Device       // this rank's; not closed by the engine
	boot    bootstrap.Bootstrap // of the ranks of this host
	local   collective.Engine   // among the ranks of this host; has the order of this engine
	alone   bootstrap.Bootstrap // of this rank
	scaler  collective.Engine   // of this rank: multiplies its elements in rank order; nil if there is no such order
	wire    wire.Wire           // to ranks of other hosts
	order   Order               // of requests on whatever streams
	inPlace bool                // the wire sends from and receives into the caller's memory
	crowded bool                // ranks share a GPU or processors: nothing runs beside anything
	exact   bool                // the order of terms does not depend on which ranks share a host
	rules   *rules              // which algorithm a size gets; the same on all ranks
	side    device.Stream       // for what runs beside the work on the caller's stream; nil until it is needed
	retired []device.Stream     // side streams that were part of a capture when another stream needed one

	scratch scratch           // for partial results; grows, and is freed by Close
	counts  device.Allocation // of an all-to-all-v with counts in device memory

	check   func(seq uint64, reqs []collective.Request) error // Config.Check; nil: requests are not compared
	explain func(*collective.Error) *fault.Verdict            // Config.Explain, which must not wait
	onFail  func(error)                                       // Config.OnFailure; not called after Close
	once    sync.Once                                         // of onFail
	tasks   sync.WaitGroup                                    // goroutines that Close awaits
	failed  abort.Cause                                       // what the wire or the local engine has ended with
	aborted abort.Cause                                       // why Abort was called; the first wins
	mu      sync.Mutex                                        // guards closed, against an Abort after Close
	closed  bool                                              // guarded by mu
	closing chan struct{}                                     // closed by Close
}

// New sets up the engines and connects this rank to the ranks of its rails. It is collective.
func New(ctx context.Context, cfg Config) (e *Engine, err error) {
	hosts, rank := cfg.Bootstrap.Hosts(), cfg.Bootstrap.Rank()
	e = &Engine{topology: newTopology(rank, hosts), name: cfg.Name, dev: cfg.Device, order: cfg.Order,
		crowded: cfg.Crowded, exact: cfg.Environment().Exact >= collective.ExactPlacement, check: cfg.Check,
		explain: cfg.Explain, onFail: cfg.OnFailure, closing: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
			e = nil
		}
	}()
	if e.boot, err = bootstrap.SplitByHost(ctx, cfg.Bootstrap); err != nil {
		return e, err
	}
	bootstrap.NameAsAbove(e.boot, true)
	if e.exact && e.rails > 1 {
		if e.alone, err = cfg.Bootstrap.Sub(ctx, []int{rank}, tags.SpaceOfRank); err != nil {
			return e, err
		}
		if e.scaler, err = cfg.Local(ctx, e.alone, []int{rank}, e.fail); err != nil {
			e.scaler = nil
			return e, err
		}
	}
	if e.local, err = cfg.Local(ctx, e.boot, e.mine(), e.fail); err != nil {
		e.local = nil // it may hold a nil pointer
		return e, err
	}
	if err = e.scratch.open(e.dev); err != nil {
		return e, err
	}
	peers := e.railPeers()
	if e.wire, err = cfg.Wire(len(peers), e.fail); err != nil {
		e.wire = nil
		return e, err
	}
	if w, ok := e.wire.(wire.InPlace); ok {
		e.inPlace = w.ReducesInPlace()
	}
	if err = e.agree(ctx, &cfg); err != nil {
		return e, err
	}
	if err = e.wire.Connect(ctx, peers); err != nil {
		return e, err
	}
	if rank == 0 {
		chosen.Do(func() {
			slog.Info("collectives across hosts", "ranks", e.size(), "hosts", len(e.members), "rails", e.rails,
				"network", cfg.Network)
		})
	}
	return e, cfg.Bootstrap.Barrier(ctx)
}

// chosen logs the choice of the process's first communicator across hosts.
var chosen sync.Once

// Check implements collective.Engine.
func (e *Engine) Check(seq uint64, reqs []collective.Request) error {
	if e.check == nil {
		return nil
	}
	return e.check(seq, reqs)
}

// Enqueue implements collective.Engine. The sends and receives of one group run together, after the collectives before
// them.
func (e *Engine) Enqueue(seq uint64, reqs []collective.Request) error {
	if err := e.Err(); err != nil {
		return err
	}
	return collective.Batches(seq, reqs, e.launch)
}

// launch enqueues requests that run together on the stream of the first one. The other streams of the batch wait for
// it, and it waits for them.
func (e *Engine) launch(seq uint64, reqs []collective.Request) error {
	s := reqs[0].Stream
	if got, want := s.Device().ID().Kind, e.dev.ID().Kind; got != want {
		return e.error(&reqs[0], seq, fmt.Errorf("%w: the stream belongs to a %v device, the communicator to a %v device",
			collective.ErrInvalidArgument, got, want))
	}
	if err := e.order.Enter(s); err != nil {
		return err
	}
	if err := collective.Joined(reqs, func(s device.Stream) error { return e.run(s, seq, reqs) }); err != nil {
		return err
	}
	return e.order.Leave(s)
}

func (e *Engine) error(r *collective.Request, seq uint64, err error) error {
	return &collective.Error{Comm: e.name, Op: r.Collective.String(), Rank: e.rank, Peer: -1, Seq: seq, Err: err}
}

// Follow implements collective.Engine.
func (e *Engine) Follow(s device.Stream) error {
	return errors.Join(e.order.Enter(s), e.order.Leave(s))
}

// deathGrace is how long the ranks of other hosts have to find out for themselves that a rank has died. After that this
// rank tells them which rank it cannot reach: a link may break between two ranks that live.
const deathGrace = 500 * time.Millisecond

// fail ends both engines after a request of one of them has failed.
func (e *Engine) fail(cause error) {
	e.once.Do(func() {
		if ce := fault.Of(cause); e.explain != nil && ce != nil && ce.Verdict == nil {
			explained := *ce
			explained.Verdict = e.explain(&explained)
			cause = &explained
		}
		e.failed.Set(cause)
		e.end(cause) // before the caller can see the error and abort without a cause
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.closed || e.onFail == nil {
			return
		}
		e.tasks.Go(func() {
			if errors.Is(cause, collective.ErrPeerDead) {
				select {
				case <-time.After(deathGrace):
				case <-e.closing: // the peers find a closed link
					return
				}
			}
			e.onFail(cause)
		})
	})
}

// Abort implements collective.Engine.
func (e *Engine) Abort(cause error) {
	if e.aborted.Set(cause) {
		e.end(cause)
	}
}

func (e *Engine) end(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	if e.wire != nil {
		e.wire.Abort(cause)
	}
	for _, part := range e.parts() {
		part.Abort(cause)
	}
}

// Ended is the failure or abort that is recorded. It looks for none, so Config.Explain may call it.
func (e *Engine) Ended() error { return cmp.Or(e.failed.Err(), e.aborted.Err()) }

// Err implements collective.Engine. On a GPU the parts find out here what their kernels report.
func (e *Engine) Err() error {
	for range 2 {
		if err := e.Ended(); err != nil {
			return err
		}
		err := e.wire.Err()
		for _, part := range e.parts() {
			err = cmp.Or(err, part.Err())
		}
		if err == nil {
			return nil
		}
		e.fail(err)
	}
	return nil
}

// Drain implements collective.Engine.
func (e *Engine) Drain(ctx context.Context) error {
	if err := e.wire.Drain(ctx); err != nil {
		return err
	}
	for _, part := range e.parts() {
		if err := part.Drain(ctx); err != nil {
			return err
		}
	}
	return e.order.Wait(ctx)
}

// parts are the engines inside the host.
func (e *Engine) parts() (list []collective.Engine) {
	for _, part := range []collective.Engine{e.local, e.scaler} {
		if part != nil {
			list = append(list, part)
		}
	}
	return list
}

// Leave implements collective.Engine.
func (e *Engine) Leave() { e.local.Leave() }

// SeesAborts implements collective.Engine.
func (e *Engine) SeesAborts() bool { return false }

// Unfinished implements collective.Engine.
func (e *Engine) Unfinished() bool { return e.wire.Unfinished() || e.local.Unfinished() }

// TableName implements collective.Engine.
func (e *Engine) TableName() string { return e.local.TableName() }

// Close implements collective.Engine.
func (e *Engine) Close() error {
	e.Abort(&collective.Error{Comm: e.name, Op: "communicator", Rank: e.rank, Peer: -1,
		Err: fmt.Errorf("%w: %w", collective.ErrAborted, collective.ErrClosed)})
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	close(e.closing)
	e.mu.Unlock()
	e.tasks.Wait()
	errs := []error{device.CloseAll(e.wire)}
	for _, part := range e.parts() {
		errs = append(errs, part.Close())
	}
	return errors.Join(append(errs, device.CloseAll(append(e.retired, e.side)...), e.scratch.close(),
		device.CloseAll(e.counts), device.CloseAll(e.boot, e.alone), e.order.Close())...)
}
