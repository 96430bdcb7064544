package goccl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/algorithm/nvlink"
	"github.com/goccl/goccl/algorithm/shm"
	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/agreement"
)

// Comm is one rank's membership in a communicator.
type Comm struct {
	boot    bootstrap.Bootstrap // a group for this communicator alone
	dev     device.Device
	cfg     Config
	rank    int
	size    int
	engine  algorithm.Engine
	checker *checker      // nil: requests are not compared
	stream0 device.Stream // the default stream of a GPU; nil on the host device
	plans   [][]byte      // files of GOCCL_PLAN_DIR

	id      uint64 // the same on all ranks, different for every communicator
	closed  atomic.Bool
	revoked atomic.Bool
	done    atomic.Bool // it was finalized
	fate    fate
	watch   sync.WaitGroup
	notices *notices // nil where work sees for itself that a peer has given up
	council *agreement.Member

	mu       sync.Mutex           // guards what follows and the order in which requests reach the engine
	seq      uint64               // of the latest collective
	messages uint64               // sends and receives so far
	single   [1]algorithm.Request // the request of a call of one collective

	extra map[uintptr]device.Stream // see remember

	registered *registered // algorithms besides the engine's; nil without any
	extended   atomic.Bool // there is one: the engine does not know all work

	wanted map[algorithm.Collective]string // of GOCCL_ALGO, what the engine does not have
}

// councilTag is the tag of what ranks say of a Shrink: 0 to 2 are the checker's and the notices', 3 and 4 the GPU engine's.
const councilTag = 5

// commSpace tells the groups of communicators from those that a caller makes of the same Bootstrap.
const commSpace = -0x676f63636c

// NewComm joins this rank to a communicator of all ranks of the bootstrap. It is collective: every rank calls it.
func NewComm(ctx context.Context, cfg Config) (*Comm, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	everyone := make([]int, cfg.Bootstrap.WorldSize())
	for r := range everyone {
		everyone[r] = r
	}
	return join(ctx, "init", cfg, cfg.Bootstrap, everyone, commSpace)
}

// join makes the communicator of some ranks of parent, in the space of their call. Its errors call the ranks as parent does.
//
//  1. Make a group of the bootstrap for this communicator, so that nobody else's messages meet its own.
//  2. Watch it: from here on a death ends what this rank waits for.
//  3. Agree on the kind of device, before anything is built on it, and on checking.
//  4. Set up the engine.
func join(ctx context.Context, op string, cfg Config, parent bootstrap.Bootstrap, ranks []int, space int) (*Comm, error) {
	ctx, stop := context.WithTimeout(ctx, cfg.Timeout)
	defer stop()
	boot, err := parent.Sub(ctx, ranks, space)
	if err != nil {
		return nil, wrap(cfg.Name, op, parent.Rank(), err)
	}
	bootstrap.NameAs(boot, ranks)
	c := &Comm{boot: boot, dev: cfg.Device, cfg: cfg, rank: boot.Rank(), size: boot.WorldSize(), council: agreement.New(boot, councilTag)}
	c.fate.begin()
	failures := boot.Failures()
	c.watch.Go(func() { c.watchPeers(failures) })

	bounded, stop2 := c.fate.bound(ctx)
	defer stop2()
	if err = c.agree(bounded); err == nil {
		err = c.setUp(bounded)
	}
	if err != nil {
		err = c.blame(op, err, ranks)
		return nil, errors.Join(err, c.Close())
	}
	bootstrap.NameAs(boot, nil)
	return c, nil
}

// agree checks that all ranks bring the same kind of device, turns checking on when one rank asks for it, and takes rank 0's number for the
// communicator.
func (c *Comm) agree(ctx context.Context) error {
	plans, digest, err := planFolder()
	if err != nil {
		return err
	}
	c.plans = plans
	mine := binary.LittleEndian.AppendUint64([]byte{byte(c.dev.ID().Kind), 0}, rand.Uint64())
	mine = binary.LittleEndian.AppendUint64(mine, digest)
	if c.cfg.Check {
		mine[1] = 1
	}
	all, err := c.boot.AllGather(ctx, mine)
	if err != nil {
		return err
	}
	for r, b := range all {
		if len(b) != len(mine) || b[0] != mine[0] {
			return &Error{Comm: c.cfg.Name, Op: "init", Rank: c.rank, Peer: r, Err: fmt.Errorf("%w: this rank uses a %v device, the peer another kind: give every rank the same kind", ErrMismatch, c.dev.ID().Kind)}
		}
		if binary.LittleEndian.Uint64(b[10:]) != digest {
			return &Error{Comm: c.cfg.Name, Op: "init", Rank: c.rank, Peer: r, Err: fmt.Errorf("%w: the peer has other plans in GOCCL_PLAN_DIR than this rank", ErrMismatch)}
		}
		c.cfg.Check = c.cfg.Check || b[1] != 0
	}
	c.id = binary.LittleEndian.Uint64(all[0][2:])
	if c.cfg.Check {
		c.checker = newChecker(c)
	}
	return nil
}

func (c *Comm) setUp(ctx context.Context) (err error) {
	forced := os.Getenv("GOCCL_ALGO") // before all ranks meet: then one of them may be setting it for the next communicator
	switch c.dev.ID().Kind {
	case device.Host:
		c.engine, err = engineOf(shm.New(ctx, shm.Config{Bootstrap: c.boot, Device: c.dev, OpTimeout: c.cfg.OpTimeout, StallWarning: c.cfg.stallWarning, Name: c.cfg.Name}))
	case device.CUDA:
		if c.stream0, err = c.dev.WrapStream(0); err != nil {
			return err
		}
		c.engine, err = engineOf(nvlink.New(ctx, nvlink.Config{Bootstrap: c.boot, Device: c.dev, Timeout: c.cfg.Timeout, OpTimeout: c.cfg.OpTimeout, SeparateGraphs: c.cfg.SeparateGraphs, StallWarning: c.cfg.stallWarning, Name: c.cfg.Name}))
	default:
		err = fmt.Errorf("%w: device %v", ErrUnsupported, c.dev.ID())
	}
	if err == nil {
		c.fate.adopt(c.engine)
		c.listen()
		if err = c.readForced(forced); err == nil {
			err = c.loadPlanFolder(ctx, c.plans)
		}
	}
	return err
}

// engineOf keeps a nil engine a nil interface.
func engineOf[E algorithm.Engine](e E, err error) (algorithm.Engine, error) {
	if err != nil {
		return nil, err
	}
	return e, nil
}

// blameDelay is how long an error of set-up that may come of a death waits for the news of it.
const blameDelay = 200 * time.Millisecond

// blame is the error of a set-up that failed with err, in which rank r is called ranks[r]. When a rank has died, that is the reason, and what this rank
// met first only a consequence.
func (c *Comm) blame(op string, err error, ranks []int) error {
	renamed := func(e *Error, kind error) error {
		peer := e.Peer
		if peer >= 0 && peer < len(ranks) {
			peer = ranks[peer]
		}
		return &Error{Op: op, Rank: ranks[c.rank], Peer: peer, Err: kind}
	}
	own := func() error {
		var ae *Error
		if errors.As(err, &ae) {
			return renamed(ae, ae.Err)
		}
		return wrap(c.cfg.Name, op, ranks[c.rank], err)
	}
	for _, kind := range []error{ErrUnsupported, ErrInvalidArgument, ErrMismatch, bootstrap.ErrTimeout, bootstrap.ErrProtocol, device.ErrOutOfMemory} {
		if errors.Is(err, kind) {
			return own()
		}
	}
	select {
	case <-c.fate.ctx.Done():
	case <-time.After(blameDelay):
	}
	var dead *Error
	if errors.As(c.fate.err(), &dead) {
		return renamed(dead, dead.Err)
	}
	return own()
}

// watchPeers turns the death of a rank into an abort that names it.
func (c *Comm) watchPeers(failures <-chan bootstrap.PeerFailure) {
	for f := range failures {
		c.fate.suffer(&Error{Comm: c.cfg.Name, Op: "communicator", Rank: c.rank, Peer: f.Rank, Err: fmt.Errorf("%w: %w", ErrPeerDead, f.Err)})
	}
}

// Rank is this rank's number, from 0 to WorldSize-1.
func (c *Comm) Rank() int { return c.rank }

// WorldSize is the number of ranks.
func (c *Comm) WorldSize() int { return c.size }

// Device is the device given to NewComm.
func (c *Comm) Device() device.Device { return c.dev }

// Name is the name given to NewComm.
func (c *Comm) Name() string { return c.cfg.Name }

// Table says which measured table chooses the algorithms of c's built-in collectives; "none" where nothing is chosen by one.
func (c *Comm) Table() string {
	if t, ok := c.engine.(interface{ TableName() string }); ok {
		return t.TableName()
	}
	return "none"
}

// AsyncError is what has gone wrong since the communicator was made: nil while all is well. After an error only Abort, Shrink and Close
// are of use.
func (c *Comm) AsyncError() error { return c.engine.Err() }

// Abort ends all running and later work of this rank with cause (nil: a plain abort). It does not wait for the work and may be called from
// any goroutine, also while another is inside a call. Peers that wait for this rank, or come to, get an error that names it.
func (c *Comm) Abort(cause error) {
	if cause == nil {
		cause = &Error{Comm: c.cfg.Name, Op: "communicator", Rank: c.rank, Peer: -1, Err: ErrAborted}
	}
	tell, cut := c.notices.leaving()
	c.fate.end(cause)
	if tell {
		c.notices.say(leftAborted, cut || c.extended.Load())
		c.notices.follow()
	}
}

// usable is nil while the communicator can be used.
func (c *Comm) usable(op string) error {
	if c.closed.Load() {
		return &Error{Comm: c.cfg.Name, Op: op, Rank: c.rank, Peer: -1, Err: ErrClosed}
	}
	if c.done.Load() {
		return c.errorf(op, ErrInvalidUsage, "the communicator was finalized")
	}
	return c.engine.Err()
}

// ended is the error of a call that waited with fate.bound: the communicator's end, or what the call itself met.
func (c *Comm) ended(op string, err error) error {
	if cause := c.fate.err(); cause != nil {
		cause = c.engine.Err() // knows more
		var ae *Error
		if errors.As(cause, &ae) {
			return &Error{Comm: c.cfg.Name, Op: op, Rank: c.rank, Peer: ae.Peer, Err: ae.Err}
		}
		return &Error{Comm: c.cfg.Name, Op: op, Rank: c.rank, Peer: -1, Err: fmt.Errorf("%w: %w", ErrAborted, cause)}
	}
	return c.wrap(op, err)
}

// Close frees the communicator. Work that still runs is aborted, unless Finalize came before: then Close first waits, at most Config.Timeout, until no
// peer reaches for memory of this rank any more. Closing twice is harmless.
func (c *Comm) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.awaitPeers()
	tell, cut := false, false
	if c.engine != nil {
		tell, cut = c.notices.leaving()
	}
	// The abort lets go of mu whoever waits inside the engine or for a peer's call.
	c.fate.end(&Error{Comm: c.cfg.Name, Op: "communicator", Rank: c.rank, Peer: -1, Err: fmt.Errorf("%w: %w", ErrAborted, ErrClosed)})
	if tell {
		c.notices.say(leftClosed, cut)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if c.registered != nil {
		err = c.registered.close()
	}
	if c.engine != nil {
		err = errors.Join(err, c.engine.Close())
	}
	c.notices.close()
	err = errors.Join(err, c.boot.Close()) // ends watchPeers and the council
	c.watch.Wait()
	c.council.Close()
	return err
}
