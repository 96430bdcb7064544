package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
)

// defaultStep is the timeout of goccl.h. NCCL's ABI sets a longer one, since ranks may start minutes apart.
const defaultStep = 30 * time.Second

func UniqueIDCreate(timeout time.Duration) (bootstrap.UniqueID, error) {
	cfg, err := Config{Timeout: timeout}.withDefaults(defaultStep)
	if err != nil {
		return bootstrap.UniqueID{}, err
	}
	return bootstrap.NewUniqueID(bootstrap.WithTimeout(cfg.Timeout))
}

func UniqueIDClose(id bootstrap.UniqueID) error { return id.Close() }

// begin allocates the handle of a communicator and starts its set-up. connect joins the ranks; it runs in the
// background.
func begin(rank, size int, d *Device, cfg Config, job string,
	connect func(context.Context, *comm) (*goccl.Comm, error)) (Handle, error) {
	return comms.add(func(h Handle) *comm {
		c := &comm{handle: h, rank: rank, size: size, dev: d, cfg: cfg, job: job, child: rank < 0}
		local.enter(job)
		c.setup = start(func(ctx context.Context) error {
			warnOfUnread()
			began := time.Now()
			inner, err := connect(ctx, c)
			if err == nil && ctx.Err() != nil {
				err = errors.Join(ctx.Err(), inner.Close())
			}
			if err != nil {
				return err
			}
			slog.Info("communicator is set up", "name", c.cfg.Name, "rank", inner.Rank(), "size", inner.WorldSize(), "device",
				inner.Device().ID().String(), "table", inner.Table(), "took", time.Since(began).Round(10*time.Microsecond))
			c.inner.Store(inner)
			return nil
		})
		c.last.Store(c.setup)
		return c
	})
}

func (c *comm) config(b bootstrap.Bootstrap) goccl.Config {
	cfg := goccl.Config{Bootstrap: b, Device: c.dev.Device}
	c.cfg.to(&cfg)
	return cfg
}

// to fills in what C configures.
func (c *Config) to(cfg *goccl.Config) {
	cfg.Timeout, cfg.OpTimeout, cfg.Name = c.Timeout, c.OpTimeout, c.Name
	if c.OpTimeout < 0 && setting.Lenient().OpTimeout > 0 {
		cfg.OpTimeout = 0 // the variable wins
	}
	cfg.SeparateGraphs, cfg.UnorderedCaptures = c.SeparateGraphs, c.UnorderedCaptures
	cfg.MinCTAs, cfg.MaxCTAs, cfg.CTAPolicy = c.MinCTAs, c.MaxCTAs, collective.CTAPolicy(c.CTAPolicy)
	cfg.Exact = collective.Exact(min(c.Exact, 255))
}

// over sets up a communicator on a bootstrap, of which it takes ownership.
func (c *comm) over(ctx context.Context, b bootstrap.Bootstrap) (*goccl.Comm, error) {
	inner, err := goccl.NewComm(ctx, c.config(b))
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	c.boot = b
	return inner, nil
}

func CommStart(id bootstrap.UniqueID, rank, size int, d *Device, cfg Config) (Handle, error) {
	if size < 1 || rank < 0 || rank >= size {
		return 0, fmt.Errorf("%w: rank %d of %d", ErrInvalidArgument, rank, size)
	}
	if _, err := bootstrap.ParseUniqueID(id[:]); err != nil {
		return 0, err
	}
	cfg, err := cfg.withDefaults(defaultStep)
	if err != nil {
		return 0, err
	}
	return begin(rank, size, d, cfg, string(id[:]), func(ctx context.Context, c *comm) (*goccl.Comm, error) {
		b, err := bootstrap.JoinID(ctx, id, rank, size, bootstrap.WithTimeout(cfg.Timeout))
		if err != nil {
			return nil, err
		}
		return c.over(ctx, b)
	})
}

func CommCreate(b *Bootstrap, d *Device, cfg Config) (Handle, error) {
	cfg, err := cfg.withDefaults(defaultStep)
	if err != nil {
		return 0, err
	}
	h, err := begin(b.Rank(), b.WorldSize(), d, cfg, b.job, func(ctx context.Context, c *comm) (*goccl.Comm, error) {
		return goccl.NewComm(ctx, c.config(b.Bootstrap))
	})
	if err != nil {
		return 0, err
	}
	return h, awaitAll([]Handle{h}, cfg)
}

// awaitAll waits for communicators that are being set up, unless cfg is non-blocking. All end if one fails.
func awaitAll(all []Handle, cfg Config) error {
	if cfg.NonBlocking {
		return nil
	}
	var err error
	for _, h := range all {
		if e := CommWait(h); err == nil {
			err = e
		}
	}
	if err != nil {
		for _, h := range all {
			_ = CommAbort(h)
		}
	}
	return err
}

func CommInitAll(handles []Handle, cfg Config) ([]Handle, error) {
	all, err := startAll(handles, cfg)
	if err != nil {
		return nil, err
	}
	return all, awaitAll(all, cfg)
}

func startAll(handles []Handle, cfg Config) ([]Handle, error) {
	if len(handles) == 0 {
		return nil, fmt.Errorf("%w: no devices", ErrInvalidArgument)
	}
	cfg, err := cfg.withDefaults(defaultStep)
	if err != nil {
		return nil, err
	}
	devs := make([]*Device, len(handles))
	for i, h := range handles {
		if devs[i], err = devices.get(h); err != nil {
			return nil, err
		}
	}
	boots := bootstrap.NewLocal(len(devs), bootstrap.WithTimeout(cfg.Timeout)).Ranks
	job := nextJob()
	out := make([]Handle, len(devs))
	for i, d := range devs {
		if out[i], err = begin(i, len(devs), d, cfg, job, func(ctx context.Context, c *comm) (*goccl.Comm, error) {
			return c.over(ctx, boots[i])
		}); err != nil {
			for _, h := range out[:i] {
				_ = CommAbort(h)
			}
			return nil, err
		}
	}
	return out, nil
}

// inherit returns the configuration of a child, and how to turn the parent's into it: cfg, or the parent's when cfg is
// nil.
func (c *comm) inherit(cfg *Config) (own Config, change []func(*goccl.Config), err error) {
	if cfg == nil {
		return c.cfg, nil, nil
	}
	own, err = cfg.withDefaults(c.cfg.Timeout)
	return own, []func(*goccl.Config){own.to}, err
}

// CommSplitStart begins a communicator of the ranks with the same color. With goccl.NoColor it takes part and returns 0
// once the other ranks have joined.
func CommSplitStart(o Open, color, key int, cfg *Config) (Handle, error) {
	c := o.c
	if color < goccl.NoColor {
		return 0, fmt.Errorf("%w: color %d is negative and not -1", ErrInvalidArgument, color)
	}
	own, change, err := c.inherit(cfg)
	if err != nil {
		return 0, err
	}
	// Splits of one communicator follow each other, on all ranks in the order of the calls.
	before := c.last.Load()
	split := func(ctx context.Context) (*goccl.Comm, error) {
		if err := before.wait(ctx); err != nil {
			return nil, err
		}
		return o.inner.Split(ctx, color, key, change...)
	}
	if color == goccl.NoColor {
		c.children.Add(1)
		t := start(func(ctx context.Context) error {
			_, err := split(ctx)
			return err
		})
		c.apart.Store(t)
		c.last.Store(t)
		return 0, nil
	}
	return c.descend(own, split)
}

func CommShrinkStart(r Ready, exclude []int32, abort bool, cfg *Config) (Handle, error) {
	ranks := make([]int, len(exclude))
	for i, rank := range exclude {
		ranks[i] = int(rank)
	}
	own, change, err := r.c.inherit(cfg)
	if err != nil {
		return 0, err
	}
	return r.c.descend(own, func(ctx context.Context) (*goccl.Comm, error) {
		return r.inner.Shrink(ctx, ranks, abort, change...)
	})
}

// descend begins a communicator whose rank and size are known when make returns; until then they are the parent's.
func (c *comm) descend(own Config, make func(context.Context) (*goccl.Comm, error)) (Handle, error) {
	h, err := begin(-1, 0, c.dev, own, c.nextChild(), func(ctx context.Context, k *comm) (*goccl.Comm, error) {
		inner, err := make(ctx)
		if err == nil {
			k.rank, k.size = inner.Rank(), inner.WorldSize()
		}
		return inner, err
	})
	if err != nil {
		return 0, err
	}
	k, err := comms.get(h)
	c.last.Store(&task{cancel: k.setup.cancel, done: k.setup.done, child: true, before: c.last.Load().pending()})
	return h, err
}

// nextChild returns the job name of a child. Ranks of this process make the same calls, so they give a child the same
// name. Children of different colors share the name, so the last Destroy waits for all of them.
func (c *comm) nextChild() string {
	return c.job + "/" + strconv.Itoa(int(c.children.Add(1)))
}

// CommUniqueID makes the id by which new ranks join o in the next Grow. This process serves it. There is one at a time.
func CommUniqueID(o Open, timeout time.Duration) (bootstrap.UniqueID, error) {
	id, err := UniqueIDCreate(timeout)
	if err == nil && !o.c.growID.CompareAndSwap(nil, &id) {
		_ = id.Close()
		err = fmt.Errorf("%w: the communicator has a unique id that no grow has used yet", ErrInvalidUsage)
	}
	return id, err
}

// CommGrowStart begins a communicator of the ranks of o, which keep their numbers, and new ones behind them. One rank
// of o has the id: from its caller, or from CommUniqueID. New ranks Start with the id instead.
func CommGrowStart(o Open, size int, id *bootstrap.UniqueID, cfg *Config) (Handle, error) {
	if size <= o.c.size {
		return 0, fmt.Errorf("%w: %d ranks, and there are %d already", ErrInvalidArgument, size, o.c.size)
	}
	own, change, err := o.c.inherit(cfg)
	if err != nil {
		return 0, err
	}
	if made := o.c.growID.Swap(nil); id == nil {
		id = made
	} else {
		id = new(*id) // the caller's memory is its own again when the call returns
	}
	return o.c.descend(own, func(ctx context.Context) (*goccl.Comm, error) {
		inner, err := o.inner.Grow(ctx, size, id, change...)
		if err != nil && id != nil {
			_ = id.Close()
		}
		return inner, err
	})
}
