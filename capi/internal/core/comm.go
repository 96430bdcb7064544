package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
)

// Config is goccl_comm_config.
type Config struct {
	NonBlocking bool
	Timeout     time.Duration
	OpTimeout   time.Duration
	Name        string

	SeparateGraphs, UnorderedCaptures bool
	MinCTAs, MaxCTAs                  int
	CTAPolicy, Exact                  uint32
}

// comm is a communicator that C holds. It exists from the moment its set-up is started.
type comm struct {
	handle     Handle
	rank, size int
	dev        *Device
	cfg        Config
	job        string // equal for ranks that started together in this process, to count them
	child      bool   // made by Split or Shrink: rank and size are known once it is set up
	children   atomic.Uint32

	inner atomic.Pointer[goccl.Comm] // nil until set up
	setup *task                      // the set-up of this communicator
	last  atomic.Pointer[task]       // the latest background work on it: set-up, split or shrink
	apart atomic.Pointer[task]       // the latest split that gave it no communicator
	state atomic.Int32

	finished atomic.Bool // its work has ended and the peers are notified: later failures of peers do not affect it

	growID atomic.Pointer[bootstrap.UniqueID] // made here and not used yet

	boot bootstrap.Bootstrap // closed with the communicator; nil when the caller owns it

	lastStream atomic.Pointer[wrapped]
	streamMu   sync.Mutex
	streams    map[uintptr]*wrapped

	opMu sync.Mutex
	ops  []redop

	ownedMu sync.Mutex
	owned   map[Handle]func(Handle) bool // how the handles of its objects are removed
}

const (
	stateOpen int32 = iota
	stateRevoked
	stateFinalized
)

var comms = table[*comm]{kind: kindComm, name: "communicator"}

// task is background work that can be waited for and cancelled.
type task struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error // valid once done is closed
	child  bool  // err is the error of a child
	before *task // still running when this one, which does not wait for it, was started
}

// start runs f in the background.
func start(f func(ctx context.Context) error) *task {
	ctx, cancel := context.WithCancelCause(context.Background())
	t := &task{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		defer cancel(nil)
		defer func() {
			if v := recover(); v != nil {
				t.err = Recovered(v)
			}
		}()
		if t.err = f(ctx); t.err != nil && ctx.Err() != nil {
			t.err = errors.Join(context.Cause(ctx), t.err)
		}
	}()
	return t
}

// wait returns when t and those before it have ended, or with ctx.
func (t *task) wait(ctx context.Context) error {
	for ; t != nil; t = t.before {
		select {
		case <-t.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// pending returns the last of the tasks that t.wait waits for, nil if all have ended.
func (t *task) pending() *task {
	for ; t != nil; t = t.before {
		if t.running() {
			return t
		}
	}
	return nil
}

func (t *task) running() bool {
	select {
	case <-t.done:
		return false
	default:
		return true
	}
}

var errCalledOff = fmt.Errorf("%w while it was being set up", goccl.ErrAborted)

// withDefaults fills in the timeout of each step when it is not positive: GOCCL_TIMEOUT, or its absolute value, or step
// where it is 0. The root package reads the variables for the timeouts of operations.
func (c Config) withDefaults(step time.Duration) (Config, error) {
	if c.Timeout > 0 {
		return c, nil
	}
	env, err := setting.Read("GOCCL_TIMEOUT")
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrInvalidArgument, err)
	}
	c.Timeout = env.TimeoutOr(cmp.Or(-c.Timeout, step))
	return c, nil
}

// ready returns the communicator, if it is set up and usable.
func (c *comm) ready() (*goccl.Comm, error) {
	if inner := c.inner.Load(); inner != nil {
		return inner, nil
	}
	if c.setup.running() {
		return nil, fmt.Errorf("%w: the communicator is still being set up: poll it, or wait for it", ErrInvalidUsage)
	}
	if c.setup.err != nil {
		return nil, c.setup.err
	}
	return nil, fmt.Errorf("%w: the communicator was not set up", ErrInvalidUsage)
}

// usable returns the communicator of h, if it is set up and its state is most at most.
func usable(h Handle, most int32) (*comm, *goccl.Comm, error) {
	c, err := comms.get(h)
	if err != nil {
		return nil, nil, err
	}
	inner, err := c.ready()
	if state := c.state.Load(); err == nil && state > most {
		why := "was finalized"
		if state == stateRevoked {
			why = "was revoked; split, shrink or destroy it"
		}
		return nil, nil, fmt.Errorf("%w: the communicator %s", ErrInvalidUsage, why)
	}
	return c, inner, err
}

// CommInfoGet describes h; during set-up some fields are not yet known.
func CommInfoGet(h Handle) (CommInfo, error) {
	c, err := comms.get(h)
	if err != nil {
		return CommInfo{}, err
	}
	if c.child {
		if _, err := c.ready(); err != nil {
			return CommInfo{}, err
		}
	}
	id, inner := c.dev.Device.ID(), c.inner.Load()
	return CommInfo{int32(c.rank), int32(c.size), int32(id.Kind), int32(id.Index), c.dev.handle,
		plain.Bit[int32](c.cfg.NonBlocking), plain.Bit[int32](inner != nil && inner.Reaches())}, nil
}

func CommHash(r Ready) (uint64, error) { return r.inner.ID(), nil }

// CommError returns the failure of h: nil without a failure, an error of InProgress while background work is under way.
func CommError(h Handle) error {
	c, err := comms.get(h)
	if err != nil {
		return err
	}
	if t := c.last.Load(); t != nil {
		if t.running() {
			return errInProgress
		}
		if t.err != nil && !t.child {
			return t.err
		}
	}
	if inner := c.inner.Load(); inner != nil && c.state.Load() != stateRevoked && !c.finished.Load() {
		return inner.AsyncError()
	}
	return nil
}

// CommWait returns when h is set up and its latest split without a color has ended.
func CommWait(h Handle) error {
	c, err := comms.get(h)
	if err != nil {
		return err
	}
	<-c.setup.done
	if c.setup.err != nil {
		return c.setup.err
	}
	if t := c.last.Load(); !t.child {
		<-t.done
		return t.err
	}
	if t := c.apart.Load(); t != nil {
		<-t.done
		return t.err
	}
	return nil
}
