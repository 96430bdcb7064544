package goccl

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
)

// registered holds the registered algorithms of a communicator. It is nil until the first registration, so that a
// communicator without one pays nothing.
type registered struct {
	collection *collective.Collection
	executor   *executor.Executor // shared by all plans

	ctx   context.Context // of Algorithm.Run, see context
	stop  context.CancelFunc
	renew time.Time
}

// RegisterAlgorithm adds an algorithm to those that c selects from. It is collective: all ranks register the same
// algorithms in the same order. Later requests that the algorithm matches and accepts run on it (see
// collective.Collection.Select). GOCCL_ALGO or a selector chooses when several match.
func (c *Comm) RegisterAlgorithm(ctx context.Context, b collective.Builder) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable("register"); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, c.cfg.Timeout)
	defer stop()
	return c.register(ctx, b)
}

// registry makes c.registered, once. The caller holds c.mu.
func (c *Comm) registry() *registered {
	if c.registered == nil {
		c.registered = &registered{collection: collective.NewCollection(c.rank, c.size, bootstrap.LocalSize(c.boot),
			c.cfg.forced)}
	}
	return c.registered
}

func (c *Comm) register(ctx context.Context, b collective.Builder) error {
	bounded, stop := c.status.Bound(ctx)
	defer stop()
	r := c.registry()
	if pb, ok := b.(*executor.Builder); ok && pb.Executor == nil {
		if r.executor == nil {
			e, err := executor.New(executor.Config{Job: c.job(c.planFailed), Order: c.order, Net: c.net, NIC: c.nic})
			if err != nil {
				return c.wrap("register", err)
			}
			r.executor = e
			c.status.OnEnd(e.Abort)
			c.status.AlsoAsk(e.Err)
		}
		shared := *pb
		shared.Executor = r.executor
		b = &shared
	}
	a, err := b.Build(bounded, c.job(c.status.End))
	if err != nil {
		return c.wrap("register", err)
	}
	if err := r.collection.Register(a); err != nil {
		_ = a.Close()
		return c.wrap("register", err)
	}
	c.status.OnEnd(a.Abort)
	c.notices.Start()
	c.extended.Store(true)
	return nil
}

// planFailed ends the communicator after the failure of a plan. Ranks of other hosts may not find out by themselves.
func (c *Comm) planFailed(cause error) {
	if c.net == nil || c.status.Err() != nil {
		c.status.End(cause)
		return
	}
	c.failAlone(cause)
}

// RegisterPlan is RegisterAlgorithm for an execution plan. It verifies the plan first and rejects an incorrect one
// with a counterexample.
func (c *Comm) RegisterPlan(ctx context.Context, p *plan.Plan, opts ...executor.Option) error {
	return c.RegisterAlgorithm(ctx, &executor.Builder{Plan: p, Options: opts})
}

// SetSelector replaces the selector among the registered algorithms. With nil, the first algorithm that matches runs.
// All ranks must set the same selector.
func (c *Comm) SetSelector(s collective.Selector) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.registry().collection.SetSelector(s)
}

// Algorithms returns the registered algorithms. Catalog describes the built-in ones too.
func (c *Comm) Algorithms() []collective.Algorithm {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.registered == nil {
		return nil
	}
	return c.registered.collection.All()
}

// Catalog describes every algorithm that c can run: the engine's algorithms and the registered ones. GOCCL_ALGO accepts
// the names of the Forceable algorithms.
func (c *Comm) Catalog() []collective.Info {
	list := c.engine.Algorithms()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.registered != nil {
		list = append(list, c.registered.collection.Infos()...)
	}
	return list
}

// readForced records the names in GOCCL_ALGO that the engine does not have. Algorithms of those names must be
// registered before the collective is called.
func (c *Comm) readForced(list []collective.Forced) error {
	built := c.engine.Algorithms()
	for _, f := range list {
		known := slices.ContainsFunc(built, func(a collective.Info) bool {
			return a.Collective == f.Collective && a.Forceable && a.Name == collective.BaseName(f.Name)
		})
		if f.Collective == collective.Send || f.Collective == collective.Recv {
			return fmt.Errorf("%w: GOCCL_ALGO: %v has no algorithms to choose from", ErrInvalidArgument, f.Collective)
		}
		if known {
			delete(c.wanted, f.Collective)
			continue
		}
		if c.wanted == nil {
			c.wanted = map[collective.Collective]string{}
		}
		c.wanted[f.Collective] = f.Name
	}
	return nil
}

// checkForced returns an error for a collective for which GOCCL_ALGO names an algorithm that does not exist. The
// caller holds c.mu.
func (c *Comm) checkForced(reqs []collective.Request) error {
	from := "GOCCL_ALGO"
	if c.cfg.Algorithms != "" {
		from = "Algorithms"
	}
	for i := range reqs {
		coll := reqs[i].Collective
		name, ok := c.wanted[coll]
		if !ok || c.registered != nil && c.registered.collection.Has(coll, name) {
			continue
		}
		var names []string
		for _, a := range c.engine.Algorithms() {
			if a.Collective == coll && a.Forceable {
				names = append(names, a.Name)
			}
		}
		if c.registered != nil {
			for _, a := range c.registered.collection.Find(coll, nil) {
				names = append(names, a.Name())
			}
		}
		there := "there are " + strings.Join(names, ", ")
		if len(names) == 0 {
			there = "it has none to choose from"
		}
		return c.errorf(coll.String(), ErrInvalidArgument, "%s: %v has no algorithm %q on a %v device: %s", from,
			coll, name, c.dev.ID().Kind, there)
	}
	return nil
}

// enqueueSelected tries the registered algorithms first and passes the other requests to Engine.Enqueue. The caller
// holds c.mu.
func (c *Comm) enqueueSelected(seq uint64, reqs []collective.Request) error {
	if c.wanted != nil {
		if err := c.checkForced(reqs); err != nil {
			return err
		}
	}
	if c.registered == nil {
		return c.record.Submit(c.engine, seq, reqs)
	}
	from := 0 // first request not yet passed to the engine
	for i := range reqs {
		a := c.registered.collection.Select(&reqs[i])
		if a == nil {
			continue
		}
		if from < i {
			if err := c.record.Submit(c.engine, seq+uint64(from), reqs[from:i]); err != nil {
				return err
			}
		}
		from = i + 1
		if err := c.engine.Follow(reqs[i].Stream); err != nil {
			return c.wrap(reqs[i].Collective.String(), err)
		}
		if err := c.record.Stamped(seq+uint64(i), reqs[i:i+1], func() error {
			return a.Run(c.registered.context(c.status.Context(), c.cfg.Timeout), seq+uint64(i), &reqs[i])
		}); err != nil {
			return err
		}
	}
	if from < len(reqs) {
		return c.record.Submit(c.engine, seq+uint64(from), reqs[from:])
	}
	return nil
}

// context returns a context that ends with parent, or after one to two timeouts. It is made for many calls, because
// making one costs as much as a quarter of a small plan on the host. The caller holds the communicator's mu.
func (r *registered) context(parent context.Context, timeout time.Duration) context.Context {
	if now := time.Now(); now.After(r.renew) {
		if r.stop != nil {
			r.stop()
		}
		r.ctx, r.stop = context.WithTimeout(parent, 2*timeout)
		r.renew = now.Add(timeout)
	}
	return r.ctx
}

func (r *registered) close() error {
	if r.stop != nil {
		r.stop()
	}
	err := r.collection.Close()
	if r.executor != nil {
		err = errors.Join(err, r.executor.Close())
	}
	return err
}

// planFolder returns the plan files of GOCCL_PLAN_DIR, sorted by file name, and a digest that differs between ranks
// whose files differ.
func planFolder(dir string) (files [][]byte, digest uint64, err error) {
	if dir == "" {
		return nil, 0, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: GOCCL_PLAN_DIR: %w: name a folder of plans, or unset it", ErrInvalidArgument, err)
	}
	h := sha256.New()
	for _, e := range entries { // sorted by name
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		data, err := regular.Read(filepath.Join(dir, e.Name()), int64(plan.Capacity.FileBytes))
		if err != nil {
			return nil, 0, fmt.Errorf("%w: GOCCL_PLAN_DIR: %w", ErrInvalidArgument, err)
		}
		sum := sha256.Sum256(data)
		h.Write(sum[:])
		files = append(files, data)
	}
	return files, binary.LittleEndian.Uint64(h.Sum(nil)) | 1, nil
}

// loadPlanFolder registers those plans of the folder whose rank count is c's and whose collective a request can
// select.
func (c *Comm) loadPlanFolder(ctx context.Context, files [][]byte) error {
	for _, data := range files {
		p, err := plan.Decode(data)
		if err != nil {
			return fmt.Errorf("GOCCL_PLAN_DIR: %w", err)
		}
		if len(p.GPUs) != c.size || !executor.Selectable(p) {
			continue
		}
		if err := c.register(ctx, &executor.Builder{Plan: p}); err != nil {
			return fmt.Errorf("GOCCL_PLAN_DIR: %w", err)
		}
	}
	return nil
}
