package shm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/share"
	"github.com/goccl/goccl/watch/record"
)

// Config configures an Engine.
type Config struct {
	collective.Job
	// Record gets the start and end of each request, and the verdicts; nil: none.
	Record *record.Recorder
}

// Engine runs the collectives of one rank.
type Engine struct {
	collective.Plain

	name       string                                 // the communicator's, for errors
	names      []int                                  // Config.Names
	onFailure  func(error)                            // Config.OnFailure; nil: nobody asks
	record     *record.Recorder                       // nil: nothing is recorded
	explain    func(*collective.Error) *fault.Verdict // Config.Explain, which must not wait
	recorded   recorded                               // the numbers of the algorithms in record
	rank, size int                                    // in the communicator
	timeout    time.Duration                          // of a request's waits; 0: only a death or an abort ends them
	arenas     []*arena                               // by rank
	meeting    *meeting                               // where all ranks meet: in the arena of rank 0
	local      bool                                   // all ranks are in this process, so buffers need no mapping
	policy     *wait.Policy                           // how long waits spin before they sleep
	forced     [collective.NumCollectives]string      // choices of GOCCL_ALGO

	run     sync.Mutex // held while a request runs; guards the fields below
	phase   uint64     // the number of the latest phase, the same on all ranks
	sums    [2]uint64  // expected sums of the meeting
	moved   []p2pState // the pieces sent and taken so far, by peer
	buffers *buffers   // of users, mapped at their first use; nil if local
	bounds  Bounds     // sizes at which a request changes its path; the same on all ranks
	taken   uint64     // the meeting's taken when no request runs

	// Scratch.
	srcs           [][]byte      // the operands of a reduction, by rank
	tile           []byte        // the result of a reduction, a part at a time
	sendAt, recvAt []device.Ptr  // by rank
	slotAt         [1]device.Ptr // this rank's slot
	granted        granted       // memory of the caller that peers may write to; empty between requests
	stall          *wait.Stall   // nil: no warning is wanted
	running        *op           // the request that runs; nil between requests
	counts         []int64       // counts of an all-to-all-v, read on the stream

	jobs jobs // the requests that wait on streams

	// Guarded by the caller, which launches on one goroutine at a time.
	order   host.Order // of requests on whatever streams
	foreign bool       // Follow was called since the latest Drain

	aborted abort.Cause  // why the engine has ended; the first wins
	failed  abort.Cause  // names the request that met the cause
	end     sync.Mutex   // guards the arena against an Abort during the unmap
	mapped  *share.Arena // all arenas, unmapped by Close
	dev     *host.Device // a handle of the engine's; Close closes it
	closed  bool         // guarded by end
}

// New sets up the shared arenas. It is collective.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	n, rank := cfg.Bootstrap.WorldSize(), cfg.Bootstrap.Rank()
	if r, err := bootstrap.OtherHost(cfg.Bootstrap); err != nil {
		return nil, fault.Blame("shm", bootstrap.NameOf(cfg.Bootstrap, r),
			"%w: the host device's collectives need all ranks on one host: %w", collective.ErrUnsupported, err)
	}
	e := &Engine{name: cfg.Name, names: cfg.Names, onFailure: cfg.OnFailure, record: cfg.Record, explain: cfg.Explain,
		recorded: newRecorded(cfg.Record), rank: rank, size: n, timeout: cfg.OpTimeout,
		arenas: make([]*arena, n), moved: make([]p2pState, n),
		srcs: make([][]byte, n), tile: make([]byte, smallTile), sendAt: make([]device.Ptr, n), recvAt: make([]device.Ptr, n)}
	if cfg.StallWarning > 0 {
		e.stall = &wait.Stall{After: cfg.StallWarning, Report: e.warn}
	}
	if err := e.force(cfg.Environment().Algorithms); err != nil {
		return nil, err
	}
	// Open a separate device, so that the arena outlives the caller's device if that is closed first.
	var err error
	if e.dev, err = host.Open(cfg.Device.ID().Index); err != nil {
		return nil, err
	}
	e.bounds.Dev = e.dev
	mapped, err := share.NewArena(ctx, cfg.Bootstrap, e.dev, arenaBytes(n))
	if err != nil {
		return nil, errors.Join(err, e.dev.Close())
	}
	e.mapped = mapped
	for r := range n {
		e.arenas[r] = newArena(mapped.Ptr[r], n)
	}
	e.meeting = e.arenas[0].meeting()
	e.buffers = newBuffers(e)
	e.local = mapped.Here() == n
	e.policy = wait.For(mapped.Here(), n)
	return e, nil
}

// global is the number of rank r in errors.
func (e *Engine) global(r int) int {
	if e.names == nil || r < 0 || r >= e.size {
		return r
	}
	return e.names[r]
}

// rankOf is the rank that has this number in errors, or -1.
func (e *Engine) rankOf(number int) int {
	if e.names != nil {
		return slices.Index(e.names, number)
	}
	if number >= e.size {
		return -1
	}
	return number
}

// Check implements collective.Engine.
func (e *Engine) Check(seq uint64, reqs []collective.Request) error {
	return e.bounds.Check(e.rank, e.size, seq, reqs)
}

// Enqueue implements collective.Engine. The sends and receives of one group are collected and run together, after the
// collectives before them.
func (e *Engine) Enqueue(seq uint64, reqs []collective.Request) error {
	return collective.Batches(seq, reqs, e.launch)
}

// launch puts requests that run together on the stream of the first one. The other streams of the batch wait for it,
// and it waits for them.
func (e *Engine) launch(seq uint64, reqs []collective.Request) error {
	s, ok := reqs[0].Stream.(*host.Stream)
	if !ok {
		return &collective.Error{Comm: e.name, Op: reqs[0].Called().String(), Rank: e.global(e.rank), Peer: -1, Seq: seq,
			Err: fmt.Errorf("%w: the stream belongs to %v, the communicator to the host device",
				collective.ErrInvalidArgument, reqs[0].Stream.Device().ID())}
	}
	if err := e.order.Enter(s); err != nil {
		return err
	}
	return collective.Joined(reqs, func(device.Stream) error {
		j := e.jobs.take(e, seq, reqs)
		e.jobs.pending.Add(1)
		err := s.Launch(reqs[0].Called().String(), 1, j.run)
		if err != nil && !j.ran { // a synchronous stream returns the requests' error
			e.jobs.pending.Add(-1)
		}
		return err
	})
}

// Follow implements collective.Engine.
func (e *Engine) Follow(s device.Stream) error {
	hs, ok := s.(*host.Stream)
	if !ok {
		return nil
	}
	e.foreign = true
	return e.order.Enter(hs)
}

// execute runs a batch on the calling goroutine and records its first error.
func (e *Engine) execute(seq uint64, batch []collective.Request) (err error) {
	e.run.Lock()
	defer e.run.Unlock()
	if err := e.Err(); err != nil {
		e.failed.Set(err)
		return err
	}
	limit := wait.Limit{Deadline: wait.After(e.timeout), Abort: e.arenas[e.rank].abort(), Stall: e.stall}
	o := &op{e: e, seq: seq, limit: limit, req: &batch[0], waitsFor: -1}
	e.running = o
	e.record.Started(o.req, seq, len(batch))
	returned := false
	defer func() {
		if returned {
			return
		}
		// For example a buffer is not mapped. Peers must not wait for this rank.
		panicked := recover() // nil: the goroutine ends
		at := fmt.Sprintf("with the send buffer at %#x and the recv buffer at %#x", uintptr(o.req.Send), uintptr(o.req.Recv))
		if o.req.ScalarPtr != 0 {
			at += fmt.Sprintf(" and the operator's factor at %#x", uintptr(o.req.ScalarPtr))
		}
		e.record.Ended(o.req, seq, len(batch), collective.ErrAborted)
		owner, cause := o.ownerOf(panicked), fmt.Errorf("%w: the operation panicked, %s", collective.ErrAborted, at)
		if owner >= 0 {
			cause = fmt.Errorf("%w: a buffer of rank %d is not mapped: it is shorter than its count says, or freed",
				fault.ErrUnmapped, e.global(owner))
		}
		_ = e.quit(o.error(owner, cause))
		if panicked != nil {
			err = o.error(owner, fmt.Errorf("%s: %w", at, &host.PanicError{Value: panicked, Stack: debug.Stack()}))
		}
	}()
	err = e.dispatch(o, batch)
	returned = true
	e.record.Ended(&batch[0], seq, len(batch), err)
	runtime.KeepAlive(batch)
	if err != nil {
		return e.quit(err)
	}
	return nil
}

// Abort implements collective.Engine.
func (e *Engine) Abort(cause error) {
	e.end.Lock()
	defer e.end.Unlock()
	if !e.closed {
		cause = e.first(cause)
	}
	if e.aborted.Set(cause) && !e.closed {
		e.arenas[e.rank].abort().Store(1)
		e.leave(cause)
	}
}

// Err implements collective.Engine.
func (e *Engine) Err() error {
	if err := e.failed.Err(); err != nil {
		return err
	}
	return e.aborted.Err()
}

// Close implements collective.Engine.
func (e *Engine) Close() error {
	e.Abort(&collective.Error{Comm: e.name, Op: "communicator", Rank: e.global(e.rank), Peer: -1,
		Err: fmt.Errorf("%w: %w", collective.ErrAborted, collective.ErrClosed)})
	e.run.Lock() // no request runs now, and later ones find the cause before they access an arena
	defer e.run.Unlock()
	e.end.Lock()
	defer e.end.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	return errors.Join(e.buffers.Close(), e.mapped.Close(), e.dev.Close())
}
