package fused

import (
	"context"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
)

// Lamport is the name of the all-reduce by packets without flags. GOCCL_ALGO=all_reduce:one_shot_lamport registers it.
const Lamport = "one_shot_lamport"

// LamportAlgorithm is the all-reduce of a Workspace as an algorithm of its communicator.
type LamportAlgorithm struct{ w *Workspace }

// Algorithm returns the workspace's all-reduce. The workspace outlives it.
func (w *Workspace) Algorithm() (*LamportAlgorithm, error) {
	if w.gpu == nil || w.gpu.arena == nil {
		return nil, fmt.Errorf("%w: %s needs GPUs that reach each other's memory", collective.ErrUnsupported, Lamport)
	}
	return &LamportAlgorithm{w}, nil
}

// lamportThreads is the size of its blocks.
const lamportThreads = 512

// room is the number of bytes that a block takes.
func (a *LamportAlgorithm) room() int64 { return a.w.cfg.RowBytes &^ (lamportThreads*16 - 1) }

// Name implements collective.Algorithm.
func (*LamportAlgorithm) Name() string { return Lamport }

// Collective implements collective.Algorithm.
func (*LamportAlgorithm) Collective() collective.Collective { return collective.AllReduce }

// MessageRange implements collective.Algorithm.
func (a *LamportAlgorithm) MessageRange() (least, most uint64) {
	return 1, uint64(a.room() * a.w.gpu.blocks)
}

// Tags implements collective.Algorithm.
func (*LamportAlgorithm) Tags() map[string]uint64 { return map[string]uint64{"shots": 1} }

// Constraint implements collective.Algorithm.
func (*LamportAlgorithm) Constraint() collective.Constraint { return collective.Constraint{} }

// BufferMode implements collective.Algorithm.
func (*LamportAlgorithm) BufferMode() collective.BufferMode { return collective.AnyBuffers }

// Accepts implements collective.Algorithm.
func (*LamportAlgorithm) Accepts(r *collective.Request) error {
	switch {
	case r.Type != datatype.Float16 && r.Type != datatype.Bfloat16 && r.Type != datatype.Float32:
		return bad("elements of %v: %s takes half, bfloat16 and float", r.Type, Lamport)
	case r.Op != datatype.Sum && r.Op != datatype.Avg:
		return bad("operator %v: %s takes sum and avg", r.Op, Lamport)
	}
	return nil
}

// Run implements collective.Algorithm. A thread carries 16 bytes, in blocks of at most 512.
func (a *LamportAlgorithm) Run(_ context.Context, seq uint64, r *collective.Request) error {
	g := a.w.gpu
	units := (r.Bytes() + 15) / 16
	threads := min(lamportThreads, (units+warp-1)&^(warp-1))
	blocks := min(g.blocks, (units+threads-1)/threads)
	g.args.input, g.args.sum, g.args.bytes = uint64(r.Send), uint64(r.Recv), uint64(r.Bytes())
	g.args.average = 0
	if r.Op == datatype.Avg {
		g.args.average = 1
	}
	return g.engine.LaunchForeign(seq, r.Called(), r.Stream.(*cuda.Stream), g.reduce[typeIndex(r.Type)], int(blocks),
		int(threads), launcher.Raw(g.args))
}

// Abort implements collective.Algorithm: the kernels poll the engine's abort block.
func (*LamportAlgorithm) Abort(error) {}

// Close implements collective.Algorithm.
func (*LamportAlgorithm) Close() error { return nil }
