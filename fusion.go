package goccl

import (
	"context"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/engine/fused"
	"github.com/goccl/goccl/engine/nvlink"
)

// FusedRequest is a fused all-reduce of one rank: an all-reduce, a residual sum, RMSNorm and quantisation. Package
// engine/fused states its arithmetic.
type FusedRequest = fused.Request

// FusionConfig configures a Fusion.
type FusionConfig = fused.Config

// The quantisations of a FusedRequest.
const (
	NoQuantisation      = fused.NoQuantisation
	StaticQuantisation  = fused.Static
	DynamicQuantisation = fused.Dynamic
)

// Fusion is one rank's workspace for fused all-reduces of a communicator.
type Fusion struct {
	c      *Comm
	inner  *fused.Workspace
	closed bool // guarded by c.mu
}

// NewFusion makes a workspace. It is collective: all ranks call it with the same configuration, at the same place among
// their collectives.
func (c *Comm) NewFusion(ctx context.Context, cfg FusionConfig) (*Fusion, error) {
	const op = "fusion"
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(op); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, c.cfg.Timeout)
	defer stop()
	bounded, stop2 := c.status.bound(ctx)
	defer stop2()
	f, err := c.newFusion(bounded, cfg)
	if err != nil {
		return nil, c.ended(op, err)
	}
	return f, nil
}

// newFusion requires that no one else uses the communicator.
func (c *Comm) newFusion(ctx context.Context, cfg FusionConfig) (*Fusion, error) {
	gpus, _ := c.engine.(*nvlink.Engine)
	w, err := fused.New(ctx, fused.Comm{Rank: c.rank, Size: c.size, Bootstrap: c.boot, Device: c.dev, Engine: gpus,
		Enqueue: c.enqueueSelected, Follow: c.engine.Follow}, cfg)
	if err != nil {
		return nil, err
	}
	f := &Fusion{c: c, inner: w}
	c.add(f)
	return f, nil
}

// AllReduce enqueues r on its stream, nil being the default stream, and returns without waiting for it. Every rank
// calls it, in the same order among its collectives.
func (f *Fusion) AllReduce(r FusedRequest) error {
	const op = "all_reduce_fusion"
	c := f.c
	if c.closed.Load() {
		return &Error{Comm: c.cfg.Name, Op: op, Rank: c.rank, Peer: -1, Err: ErrClosed}
	}
	if err := r.Validate(); err != nil {
		return &Error{Comm: c.cfg.Name, Op: op, Rank: c.rank, Peer: -1, Err: err}
	}
	if r.Stream == nil {
		var err error
		if r.Stream, err = c.defaultStream(); err != nil {
			return c.wrap(op, err)
		}
	} else if kind := r.Stream.Device().ID().Kind; kind != c.dev.ID().Kind {
		return c.errorf(op, ErrInvalidArgument, "the stream belongs to a %v device, the communicator to a %v device", kind,
			c.dev.ID().Kind)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.closed {
		return c.errorf(op, ErrInvalidUsage, "the fusion was closed")
	}
	// The bounds, the checker and the notices know it as an all-reduce of the same size.
	c.single[0] = collective.Request{Collective: collective.AllReduce, PartOf: collective.AllReduceFusion, Send: r.Input,
		Recv: r.Input, Count: r.Tokens * r.Hidden, Type: r.Type, Op: datatype.Sum, Stream: r.Stream}
	p := part{c: c, reqs: c.single[:], collectives: 1}
	if err := p.check(); err != nil {
		return err
	}
	if c.notices != nil {
		if err := c.notices.count(p.reqs, 1); err != nil {
			c.status.end(err)
			return err
		}
	}
	c.seq++
	c.recordCalls(c.seq, p.reqs)
	if err := c.enqueued(c.seq, p.reqs, f.inner.Enqueue(c.seq, &r)); err != nil {
		return c.wrap(op, err)
	}
	return nil
}

// Close frees the workspace on this rank. Its work must have ended. Closing the communicator closes its fusions.
func (f *Fusion) Close() error { return f.c.drop(f) }

func (f *Fusion) close() error {
	f.closed = true
	return f.inner.Close()
}

// FusionShape is what Fusion.Tune measures.
type FusionShape = fused.Shape

// Tune measures the algorithms for up to shape.Tokens rows, and keeps the fastest of each size for requests that name
// none. It is collective. Without it such requests run apart: as an all-reduce and a kernel.
func (f *Fusion) Tune(ctx context.Context, shape FusionShape) error {
	const op = "tune fusion"
	c := f.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(op); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, c.cfg.Timeout)
	defer stop()
	bounded, stop2 := c.status.bound(ctx)
	defer stop2()
	if err := f.inner.Tune(bounded, shape, func() uint64 { c.seq++; return c.seq }); err != nil {
		return c.ended(op, err)
	}
	return nil
}

// lamport builds the all-reduce by packets without flags.
type lamport struct{ c *Comm }

// Build implements collective.Builder. The communicator closes the workspace after its engine.
func (l lamport) Build(ctx context.Context, _ collective.Environment) (collective.Algorithm, error) {
	f, err := l.c.newFusion(ctx, FusionConfig{})
	if err != nil {
		return nil, err
	}
	return f.inner.Algorithm()
}
