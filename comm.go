package goccl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/algorithm/nvlink"
	"github.com/goccl/goccl/algorithm/shm"
	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device"
)

// Config says who this rank is and what it runs on.
type Config struct {
	// Bootstrap joins the ranks; it must be initialised. The Comm does not close it.
	Bootstrap bootstrap.Bootstrap
	// Device is where this rank's buffers and streams live. All ranks must use the same kind of device.
	Device device.Device
	// Timeout bounds set-up and, when OpTimeout is 0, nothing else. 0 means 30 s.
	Timeout time.Duration
	// OpTimeout, when positive, is how long a collective may wait for its peers before it fails with ErrTimeout. 0 means that only the
	// death of a peer or Abort ends it.
	OpTimeout time.Duration
	// Name appears in logs and errors.
	Name string
}

// Comm is one rank's membership in a communicator.
type Comm struct {
	boot   bootstrap.Bootstrap
	dev    device.Device
	cfg    Config
	rank   int
	size   int
	engine algorithm.Engine
	owned  bool // boot was made by Split or Shrink, so Close closes it

	id   uint32        // the same on all ranks
	subs atomic.Uint32 // communicators made from this one, to tell their traffic apart

	mu     sync.Mutex // guards seq and the order in which requests reach the engine
	seq    uint64
	closed atomic.Bool
	ended  chan struct{}
	watch  sync.WaitGroup
}

const defaultTimeout = 30 * time.Second

// NewComm joins this rank to a communicator of all ranks of the bootstrap. It is collective: every rank calls it.
func NewComm(ctx context.Context, cfg Config) (*Comm, error) {
	if cfg.Bootstrap == nil || cfg.Device == nil {
		return nil, fmt.Errorf("goccl: NewComm: %w: Config needs a Bootstrap and a Device", ErrInvalidArgument)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	c := &Comm{boot: cfg.Bootstrap, dev: cfg.Device, cfg: cfg, rank: cfg.Bootstrap.Rank(), size: cfg.Bootstrap.WorldSize(), ended: make(chan struct{})}
	if err := c.agree(ctx); err != nil {
		return nil, err
	}
	var err error
	switch cfg.Device.ID().Kind {
	case device.Host:
		c.engine, err = shm.New(ctx, shm.Config{Bootstrap: cfg.Bootstrap, Device: cfg.Device, OpTimeout: cfg.OpTimeout})
	case device.CUDA:
		c.engine, err = nvlink.New(ctx, nvlink.Config{Bootstrap: cfg.Bootstrap, Device: cfg.Device, OpTimeout: cfg.OpTimeout})
	default:
		err = fmt.Errorf("%w: device %v", ErrUnsupported, cfg.Device.ID())
	}
	if err != nil {
		return nil, &Error{Op: "init", Rank: c.rank, Peer: peerOf(err), Err: err}
	}
	c.watch.Add(1)
	go c.watchPeers()
	return c, nil
}

// agree checks that all ranks bring the same kind of device, before anything is built on it, and takes rank 0's number for the
// communicator, which keeps apart what several communicators make from one Bootstrap.
func (c *Comm) agree(ctx context.Context) error {
	mine := binary.LittleEndian.AppendUint32([]byte{byte(c.dev.ID().Kind)}, rand.Uint32()>>2)
	all, err := c.boot.AllGather(ctx, mine)
	if err != nil {
		return &Error{Op: "init", Rank: c.rank, Peer: peerOf(err), Err: err}
	}
	for r, k := range all {
		if len(k) != len(mine) || device.Kind(k[0]) != c.dev.ID().Kind {
			return &Error{Op: "init", Rank: c.rank, Peer: r, Err: fmt.Errorf("%w: this rank uses a %v device, rank %d another kind: give every rank the same kind", ErrMismatch, c.dev.ID().Kind, r)}
		}
	}
	c.id = binary.LittleEndian.Uint32(all[0][1:])
	return nil
}

// watchPeers turns the death of a rank into an abort that names it.
func (c *Comm) watchPeers() {
	defer c.watch.Done()
	failures := c.boot.Failures()
	for {
		select {
		case f, ok := <-failures:
			if !ok {
				return
			}
			c.engine.Abort(&Error{Op: "communicator", Rank: c.rank, Peer: f.Rank, Err: fmt.Errorf("%w: %w", ErrPeerDead, f.Err)})
		case <-c.ended:
			return
		}
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

// AsyncError is what has gone wrong since the communicator was made: nil while all is well. After an error only Abort, Shrink and Close
// are of use.
func (c *Comm) AsyncError() error { return c.engine.Err() }

// Abort ends all running and later work of this rank with cause (nil: a plain abort). It does not wait for the work and may be called from
// any goroutine, also while another is inside a call.
func (c *Comm) Abort(cause error) {
	if cause == nil {
		cause = &Error{Op: "communicator", Rank: c.rank, Peer: -1, Err: ErrAborted}
	}
	c.engine.Abort(cause)
}

// Finalize waits until every rank has called it, so that no peer still needs this one. Enqueued work must have ended (synchronise its
// streams first).
func (c *Comm) Finalize(ctx context.Context) error {
	if err := c.engine.Err(); err != nil {
		return err
	}
	if err := c.boot.Barrier(ctx); err != nil {
		return &Error{Op: "finalize", Rank: c.rank, Peer: peerOf(err), Err: err}
	}
	return nil
}

// Close frees the communicator. Work that still runs is aborted. Closing twice is harmless.
func (c *Comm) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	close(c.ended)
	c.watch.Wait()
	c.engine.Abort(&Error{Op: "communicator", Rank: c.rank, Peer: -1, Err: ErrClosed}) // lets go of mu whoever waits inside the engine
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.engine.Close()
	if c.owned {
		err = errors.Join(err, c.boot.Close())
	}
	return err
}

// peerOf is the peer that an error of the bootstrap blames, or -1.
func peerOf(err error) int {
	var be *bootstrap.Error
	if errors.As(err, &be) {
		return be.Peer
	}
	var ae *Error
	if errors.As(err, &ae) {
		return ae.Peer
	}
	return -1
}
