package executor

import (
	"context"
	"fmt"
	"log/slog"
	"maps"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/plan"
)

// Builder is the collective.Builder of an execution plan: it makes the plan an algorithm of a communicator. All plans
// of a communicator share an Executor.
type Builder struct {
	Plan    *plan.Plan
	Options []Option
	Tags    map[string]uint64
	// Executor is the communicator's, which sets it.
	Executor *Executor
}

var _ collective.Builder = (*Builder)(nil)

// planAlgorithm implements collective.Algorithm for a loaded plan.
type planAlgorithm struct {
	x          *ExecutionPlan
	collective collective.Collective
	tags       map[string]uint64
}

// collectives maps plan collectives to request collectives. A plan for any other collective can be executed but not
// selected.
var collectives = map[plan.Collective]collective.Collective{
	plan.AllReduce: collective.AllReduce, plan.AllGather: collective.AllGather,
	plan.ReduceScatter: collective.ReduceScatter,
	plan.AllToAll:      collective.AllToAll, plan.Broadcast: collective.Broadcast, plan.Reduce: collective.Reduce,
}

// Build loads the plan. It is collective.
func (b *Builder) Build(ctx context.Context, _ collective.Job) (collective.Algorithm, error) {
	c, ok := collectives[b.Plan.Collective]
	if !ok {
		return nil, fmt.Errorf("%w: a plan for %q cannot be selected by a request", collective.ErrUnsupported,
			b.Plan.Collective)
	}
	if b.Plan.Hooked() {
		return nil, fmt.Errorf("%w: plan %s has hooks, which requests do not raise; execute it by itself",
			collective.ErrUnsupported, b.Plan.Name)
	}
	x, err := b.Executor.Load(ctx, b.Plan, b.Options...)
	if err != nil {
		return nil, err
	}
	if err := x.keeps(&collective.Request{Collective: c, Type: datatype.Float32}); err != nil && x.e.rank == 0 {
		slog.Warn("a registered plan does not run for sums of floats", "error", err)
	}
	return &planAlgorithm{x: x, collective: c, tags: maps.Clone(b.Tags)}, nil
}

func (a *planAlgorithm) Name() string                      { return a.x.plan.Name }
func (a *planAlgorithm) Collective() collective.Collective { return a.collective }
func (a *planAlgorithm) Tags() map[string]uint64           { return maps.Clone(a.tags) }
func (a *planAlgorithm) MessageRange() (least, most uint64) {
	return max(1, a.x.plan.MinSize), a.x.plan.MaxSize
}

// Constraint returns the world size: a plan is for a fixed number of ranks.
func (a *planAlgorithm) Constraint() collective.Constraint {
	return collective.Constraint{WorldSize: len(a.x.plan.GPUs)}
}

// BufferMode returns AnyBuffers: the executor copies where the plan's buffer mode differs from the caller's.
func (a *planAlgorithm) BufferMode() collective.BufferMode { return collective.AnyBuffers }

func (a *planAlgorithm) Accepts(r *collective.Request) error {
	if (r.Collective == collective.Broadcast || r.Collective == collective.Reduce) && r.Root != a.x.plan.Root {
		return invalid("the plan's root is rank %d", a.x.plan.Root)
	}
	if err := a.x.keeps(r); err != nil {
		return err
	}
	return a.x.Takes(r.MessageBytes(len(a.x.plan.GPUs)), r.Type, r.Op)
}

// keeps returns nil if the bits of r's result are those that are promised (GOCCL_EXACT, r.Exact). The engine adds
// in rank order, and across hosts from placement on; a plan that it takes turns with must do the same.
func (x *ExecutionPlan) keeps(r *collective.Request) error {
	exact := max(x.e.cfg.Environment().Exact, r.Exact)
	if exact < collective.ExactBatch || !r.Ordered() {
		return nil
	}
	why := ""
	switch narrow := r.Type.Size() < 4; {
	case exact == collective.ExactBatch && x.e.here != x.e.cfg.Bootstrap:
		why = "across hosts, where the engine adds the ranks of a host first (placement is kept)"
	case !x.inRankOrder && (x.e.size > 2 || !x.once):
		why = "in another order than the ranks'"
	case narrow && (!x.once || x.encoded != nil && x.e.size > gpuOperands):
		why = fmt.Sprintf("and rounds partial sums to %v", r.Type)
	case narrow && r.Op == datatype.Avg:
		why = fmt.Sprintf("and rounds to %v before it divides", r.Type)
	default:
		return nil
	}
	return fmt.Errorf("%w: plan %s does not keep the level %v of exact sums: it adds %s", collective.ErrUnsupported,
		x.plan.Name, exact, why)
}

func (a *planAlgorithm) Run(ctx context.Context, seq uint64, r *collective.Request) error {
	return a.x.Execute(ctx, Args{Send: r.Send, Recv: r.Recv, Message: r.MessageBytes(len(a.x.plan.GPUs)), Type: r.Type,
		Op:     r.Op,
		Scalar: r.Scalar, ScalarPtr: r.ScalarPtr, Stream: r.Stream, Seq: seq})
}

// Register calls Executor.Register on the executor that the communicator's plans share. Benchmarks and callers with
// long-lived buffers use it.
func (a *planAlgorithm) Register(ctx context.Context, p device.Ptr) error {
	return a.x.e.Register(ctx, p)
}

func (a *planAlgorithm) Abort(cause error) { a.x.e.Abort(cause) }

// Close does nothing: the executor owns the plan.
func (a *planAlgorithm) Close() error { return nil }

// Selectable reports whether requests can select the plan.
func Selectable(p *plan.Plan) bool {
	_, ok := collectives[p.Collective]
	return ok && !p.Hooked()
}
