package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport"
)

// Config configures an Executor.
type Config struct {
	// Job is what the executor shares with the engines of its process. It uses the Bootstrap in Load, in Reserve and
	// whenever a message needs more scratch than any before; there must be no other use of it at the same time. The Device
	// is a *host.Device or a *cuda.Device, of one kind on all ranks. OnFailure is called once, with the cause of the first
	// Abort or failure. Names, Settings, Timeout, Explain and the kinds of order are not used.
	collective.Job
	// Order, on a GPU, is the order of the communicator whose operations the executor runs: plans and the
	// communicator's other work run in the order of the calls, and the calls must be serialized. It must live as long
	// as the executor. If it is nil, each plan has its own order.
	Order *cuda.Order
	// Net is the network to ranks of other hosts, and NIC the number of this rank's adapter. If Net is nil, all ranks must
	// be on one host.
	Net transport.Net
	NIC int
}

// Executor runs plans for one rank of one communicator.
type Executor struct {
	cfg  Config
	rank int
	size int

	hosts []int               // by rank; nil if there is one
	local []int               // the ranks of this host; set by the first Load, as the next two
	here  bootstrap.Bootstrap // group of local
	// network leads to ranks of other hosts, rings the same from a GPU; nil if there are none. Guarded by mu.
	network *network
	rings   *rings

	ending  chan struct{} // closed by Abort
	aborted atomic.Uint32 // abort word of all waits; nonzero once cause is set
	cause   abort.Cause

	gpu     *gpu     // shared by all plans on a GPU; set by the first Load
	buffers *buffers // on the host device, unless all ranks are in this process; set by the first Load

	mu     sync.Mutex
	plans  []*ExecutionPlan
	closed bool
}

// New creates an executor. It is local; the ranks meet in Load.
func New(cfg Config) (*Executor, error) {
	if cfg.Bootstrap == nil || cfg.Device == nil {
		return nil, fmt.Errorf("executor: %w: Config needs a Bootstrap and a Device", collective.ErrInvalidArgument)
	}
	e := &Executor{cfg: cfg, rank: cfg.Bootstrap.Rank(), size: cfg.Bootstrap.WorldSize(), ending: make(chan struct{})}
	r, err := bootstrap.OtherHost(cfg.Bootstrap)
	if err == nil {
		return e, nil
	}
	e.hosts = cfg.Bootstrap.Hosts()
	if cfg.Net != nil {
		return e, nil
	}
	err = fmt.Errorf("%w: without a network, plans run among the ranks of one host: %w", collective.ErrUnsupported, err)
	return nil, &collective.Error{Op: "executor", Rank: e.rank, Peer: r, Err: err}
}

// Rank returns the Bootstrap's rank.
func (e *Executor) Rank() int { return e.rank }

// Abort ends every running and later launch with cause. Only the first cause counts.
func (e *Executor) Abort(cause error) {
	cause = cmp.Or(cause, collective.ErrAborted)
	if !e.cause.Set(cause) {
		return
	}
	e.aborted.Store(1)
	close(e.ending)
	e.mu.Lock()
	e.network.halt()
	e.rings.halt(cause)
	for _, x := range e.plans {
		x.engine.wake()
	}
	e.mu.Unlock()
	if e.cfg.OnFailure != nil {
		e.cfg.OnFailure(cause)
	}
}

// Err returns the cause of the abort or the first failure of a launch, or nil. On a GPU it asks the plans' kernels:
// once a stream has ended, Err knows of every failed launch in it.
func (e *Executor) Err() error {
	if err := e.cause.Err(); err != nil {
		return err
	}
	if err := e.reported(); err != nil {
		e.Abort(err)
	}
	return e.cause.Err()
}

// add registers x with Abort and Close.
func (e *Executor) add(x *ExecutionPlan) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("%w: the executor is closed", collective.ErrAborted)
	}
	e.plans = append(e.plans, x)
	return nil
}

// Close aborts running launches and frees all plans.
func (e *Executor) Close() error {
	e.Abort(fmt.Errorf("%w: the executor is closed", collective.ErrAborted))
	e.mu.Lock()
	plans := e.plans
	e.plans, e.closed = nil, true
	e.mu.Unlock()
	var errs []error
	for _, x := range plans {
		errs = append(errs, x.close())
	}
	if e.gpu != nil {
		errs = append(errs, e.gpu.close())
	}
	errs = append(errs, e.buffers.close(), e.network.close(), e.rings.close())
	if e.here != nil && e.here != e.cfg.Bootstrap {
		errs = append(errs, e.here.Close())
	}
	return errors.Join(errs...)
}

// engine is the part of a loaded plan that depends on the device.
type engine interface {
	// reserve makes scratch fit chunks of that many bytes. It is collective and never shrinks scratch.
	reserve(ctx context.Context, chunk int64) error
	// stage does the same for the staging buffers, when any rank may need them.
	stage(ctx context.Context, in, out int64) error
	// launch enqueues one run.
	launch(l *launch) error
	// ownScratch returns this rank's scratch and its size; the size is 0 if the plan uses none.
	ownScratch() (device.Ptr, int64)
	// counter returns the address of the counter of one of this rank's links.
	counter(link int) device.Ptr
	// wake makes waits check the abort word.
	wake()
	close() error
}

// fail wraps err as this rank's error for one launch of the plan (seq 0: no launch).
func (x *ExecutionPlan) fail(seq uint64, peer int, err error) error {
	if ae := fault.Of(err); ae != nil {
		return err
	}
	if peer < 0 {
		peer = fault.PeerOf(err)
	}
	return &collective.Error{Comm: x.e.cfg.Name, Op: "plan " + x.plan.Name, Rank: x.e.rank, Peer: peer, Seq: seq, Err: err}
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{collective.ErrInvalidArgument}, args...)...)
}

func mismatch(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{collective.ErrMismatch}, args...)...)
}

// ended turns the end of a wait into an error that names the place of the wait.
func (e *Executor) ended(err error, where string) error {
	if errors.Is(err, wait.ErrTimeout) {
		return fmt.Errorf("%w: after %v still %s", collective.ErrTimeout, e.cfg.OpTimeout, where)
	}
	if cause := e.cause.Err(); cause != nil {
		return fmt.Errorf("%w, while %s: %w", collective.ErrAborted, where, cause)
	}
	return fmt.Errorf("%w, while %s: %w", collective.ErrAborted, where, err)
}
