package goccl

import (
	"context"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/fused"
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
	next   FusedRequest // guarded by c.mu, as closed is
	closed bool
}

// NewFusion makes a workspace. It is collective: all ranks call it with the same configuration, at the same place among
// their collectives.
func (c *Comm) NewFusion(ctx context.Context, cfg FusionConfig) (*Fusion, error) {
	var f *Fusion
	err := c.bounded(ctx, "fusion", func(ctx context.Context) (err error) {
		f, err = c.newFusion(ctx, cfg)
		return err
	})
	return f, err
}

// newFusion requires mu.
func (c *Comm) newFusion(ctx context.Context, cfg FusionConfig) (*Fusion, error) {
	gpus, _ := c.engine.(fused.Engine)
	w, err := fused.New(ctx, fused.Comm{Job: c.job(c.status.End), Engine: gpus, Enqueue: c.enqueueSelected,
		Follow: c.engine.Follow}, cfg)
	if err != nil {
		return nil, err
	}
	f := &Fusion{c: c, inner: w}
	c.own(f)
	return f, nil
}

// AllReduce enqueues r on its stream, nil being the default stream, and returns without waiting for it. Every rank
// calls it, in the same order among its collectives.
func (f *Fusion) AllReduce(r FusedRequest) error {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	return f.run(&r)
}

// run requires c.mu.
func (f *Fusion) run(r *FusedRequest) error {
	f.next = *r
	return f.c.runLocked((*fusedCall)(f), false)
}

// fusedCall is the call of Fusion.next.
type fusedCall Fusion

// Request implements collective.Operation. The bounds, the checker and the notices know the call as an all-reduce of
// the same size.
func (f *fusedCall) Request() (collective.Request, error) {
	r := &f.next
	err := r.Validate()
	if f.closed {
		err = fmt.Errorf("%w: the fusion was closed", ErrInvalidUsage)
	}
	return collective.Request{Collective: collective.AllReduce, PartOf: collective.AllReduceFusion, Send: r.Input,
		Recv: r.Input, Count: r.Tokens * r.Hidden, Type: r.Type, Op: datatype.Sum, Stream: r.Stream}, err
}

// Enqueue implements collective.Operation.
func (f *fusedCall) Enqueue(seq uint64, s device.Stream) error {
	f.next.Stream = s
	return f.inner.Enqueue(seq, &f.next)
}

// Close frees the workspace on this rank. Its work must have ended. Closing the communicator closes its fusions.
func (f *Fusion) Close() error { return f.c.disown(f) }

func (f *Fusion) close() error {
	f.closed = true
	return f.inner.Close()
}

// FusionShape is what Fusion.Tune measures.
type FusionShape = fused.Shape

// Tune measures the algorithms for up to shape.Tokens rows, and keeps the fastest of each size for requests that name
// none. It is collective. Without it such requests run apart: as an all-reduce and a kernel.
func (f *Fusion) Tune(ctx context.Context, shape FusionShape) error {
	return f.c.bounded(ctx, "tune fusion", func(ctx context.Context) error { return f.inner.Tune(ctx, shape, f.run) })
}
