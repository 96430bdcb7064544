package executor

import (
	"context"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/plan"
)

// Args describes one execution of a plan by one rank. All ranks give the same Message, Type and Op.
type Args struct {
	// Send and Recv are this rank's input and output; 0 where the collective gives the rank none. They may be the same
	// memory, as NCCL defines in-place for the collective, whether or not the plan is in place.
	Send, Recv device.Ptr
	// Message is the size in bytes, as in plan.Plan.MinSize: input bytes, but output bytes for an all-gather.
	Message uint64
	Type    datatype.Type
	Op      datatype.Op
	// Scalar is the factor of datatype.PreMulSum; see collective.Request.
	Scalar    [8]byte
	ScalarPtr device.Ptr
	Stream    device.Stream
	// Counts, of a plan with counts, is a table in device memory of how many bytes each rank sends to each: a uint64 for
	// each pair, by sender, then receiver. It is the same on all ranks, and must not change before the launch has ended.
	// 0 stands for blocks that are all full. The launch reads it when it runs: each replay of a captured launch reads the
	// table again.
	Counts device.Ptr
	// Seq is the number of the operation, for errors.
	Seq uint64
}

// launch is one run that is being enqueued.
type launch struct {
	Args
	layout *layout
	sizes  [2]int64 // of input and output
	// owns reports whether this rank has an input and an output at all, whatever Send and Recv are: a broadcast reads
	// input at the root only, and a reduce writes output at the root only.
	owns   [2]bool
	number uint64
}

// Execute enqueues one run. Every rank executes the same plans in the same order. The error is an *collective.Error.
// The stream and Executor.Err report failures while the plan runs.
func (x *ExecutionPlan) Execute(ctx context.Context, a Args) error {
	if err := x.e.cause.Err(); err != nil {
		return err
	}
	if a.Stream == nil || a.Stream.Device() == nil || a.Stream.Device().ID().Kind != x.e.cfg.Device.ID().Kind {
		return x.fail(a.Seq, -1, invalid("a stream of the %v device is needed", x.e.cfg.Device.ID().Kind))
	}
	layout, err := x.takes(a.Message, a.Type, a.Op)
	if err != nil {
		return x.fail(a.Seq, -1, err)
	}
	a.Op = x.reduction.effective(a.Op)
	if a.Counts != 0 && (!x.counted || a.Counts%8 != 0) {
		return x.fail(a.Seq, -1, badCounts(x.plan, a.Counts))
	}
	if err := x.meets(&placement{}, a.Op); err != nil {
		return x.fail(a.Seq, -1, err)
	}
	if a.Message == 0 {
		return nil
	}
	l := launch{Args: a, layout: layout, sizes: layout.sizes}
	leaf := x.plan.Root != x.e.rank
	l.owns = [2]bool{l.sizes[0] > 0 && a.Send != 0 && !(leaf && x.plan.Collective == plan.Broadcast),
		l.sizes[1] > 0 && a.Recv != 0 && !(leaf && x.plan.Collective == plan.Reduce)}
	if layout.Chunk > x.capacity {
		if err := x.grow(ctx, layout.Chunk); err != nil {
			return err
		}
	}
	if x.program.remote && !x.registered {
		in, out := layout.largest[0], layout.largest[1]
		if x.plan.InPlace {
			in, out = max(in, out), 0
		}
		if err := x.engine.stage(ctx, in, out); err != nil {
			return x.fail(a.Seq, -1, fmt.Errorf("staging buffers: %w", err))
		}
	}
	if err := x.engine.launch(&l); err != nil {
		if fault.Of(err) != nil {
			return err
		}
		return x.fail(a.Seq, -1, fmt.Errorf("launch: %w", err))
	}
	return nil
}

// badCounts says why a launch cannot have a table of counts.
func badCounts(p *plan.Plan, at device.Ptr) error {
	if !p.Counted() {
		return invalid("no op of plan %s has a count, so a table of counts would be of no effect", p.Name)
	}
	return invalid("the table of counts lies at %#x, which is no multiple of 8", uintptr(at))
}

// placement is where a launch's input and output are, and which copies to and from the caller's buffers this needs.
type placement struct {
	input, output     device.Ptr
	inSize, outSize   int64
	stageIn, stageOut bool // the launch uses the executor's memory
	moveIn            bool // input is copied from the caller's buffer before
	moveOut           bool // output is copied to the caller's buffer after
}

// place decides where the buffers are. reachable: the peers that need the caller's input (0) and output (1) can access
// it. rewrite: the input is changed before the run (reduction.before).
//
//	plan in place    input and output are one memory: the caller's output (or input, for a reduce-scatter whose
//	                 caller works in place); the caller's input is copied into it first, unless it is there already
//	plan not         input and output must not overlap: if the caller's do, input is copied to other memory first
func (x *ExecutionPlan) place(l *launch, reachable [2]bool, rewrite bool) placement {
	inAt, outAt := l.layout.Together(x.e.rank)
	p := placement{inSize: l.sizes[0], outSize: l.sizes[1]}
	if !l.owns[0] {
		p.inSize = 0
	}
	if !l.owns[1] {
		p.outSize = 0
	}
	together := l.owns[0] && l.owns[1] && l.Send+device.Ptr(outAt) == l.Recv+device.Ptr(inAt)
	if !x.plan.InPlace {
		p.input, p.output = l.Send, l.Recv
		overlap := l.owns[0] && l.owns[1] && l.Send < l.Recv+device.Ptr(p.outSize) && l.Recv < l.Send+device.Ptr(p.inSize)
		p.stageIn = p.inSize > 0 && (!reachable[0] || overlap || rewrite)
		p.stageOut = p.outSize > 0 && !reachable[1]
		p.moveIn, p.moveOut = p.stageIn, p.stageOut
		return p
	}
	// One memory, of the larger size. If the caller may still need its input, the input must not be rewritten.
	hasIn, hasOut := p.inSize > 0, p.outSize > 0
	p.inSize, p.outSize = l.sizes[0], l.sizes[1]
	keep := rewrite && (x.plan.Collective == plan.ReduceScatter || x.plan.Collective == plan.Reduce)
	switch {
	case keep:
		p.stageIn, p.stageOut = true, true
		p.moveIn, p.moveOut = hasIn, hasOut
	case together && reachable[0] && reachable[1]:
		p.input, p.output = l.Send, l.Recv
	case l.owns[1] && reachable[0] && reachable[1] && p.outSize >= p.inSize:
		p.output = l.Recv
		p.input = l.Recv + device.Ptr(inAt)
		p.moveIn = hasIn
	case l.owns[0] && !l.owns[1] && reachable[0]: // nothing is written to output
		p.input, p.output = l.Send, l.Send+device.Ptr(outAt)
	default:
		p.stageIn, p.stageOut = true, true
		p.moveIn, p.moveOut = hasIn, hasOut
	}
	return p
}

// arrange is place, with the executor's memory where the caller's does not do. reach reports whether peers can access n
// bytes of the caller; staging returns memory for input (k 0) or output (k 1).
func (x *ExecutionPlan) arrange(l *launch, rewrite bool, reach func(p device.Ptr, n int64) bool,
	staging func(k int, n int64) (device.Ptr, error)) (p placement, err error) {
	reachable := [2]bool{true, true}
	for k, at := range [2]device.Ptr{l.Send, l.Recv} {
		if (x.program.touched[k] || x.plan.InPlace && x.program.touched[1-k]) && l.owns[k] {
			reachable[k] = reach(at, l.sizes[k])
		}
	}
	p = x.place(l, reachable, rewrite)
	if err := x.meets(&p, l.Op); err != nil {
		return p, err
	}
	if x.plan.InPlace && p.stageIn {
		inAt, outAt := l.layout.Together(x.e.rank)
		at, err := staging(0, max(l.sizes[0], l.sizes[1]))
		p.input, p.output = at.Add(inAt), at.Add(outAt)
		return p, err
	}
	if p.stageIn {
		p.input, err = staging(0, p.inSize)
	}
	if err == nil && p.stageOut {
		p.output, err = staging(1, p.outSize)
	}
	return p, err
}

// reduction describes which operators a plan supports. It depends on the plan alone, so that all ranks accept, scale or
// reject the same operators, whichever ranks do the additions.
type reduction struct {
	some     bool          // some output is the result of a reduction
	whole    bool          // all output is a reduction over all ranks, so it can be averaged
	mixed    bool          // reductions specify different operators
	named    bool          // all output has one operator
	operator plan.ReduceOp // the operator of all reductions; CallerOp when the caller chooses it
}

func reductionOf(p *plan.Plan) (d reduction) {
	switch p.Collective {
	case plan.AllReduce, plan.ReduceScatter, plan.Reduce:
		d.some, d.whole, d.named = true, true, true
	case plan.AllGather, plan.AllToAll, plan.Broadcast, plan.SendRecv:
	default:
		d.whole = true
		for r := range p.GPUs {
			for _, want := range p.Demands(r) {
				d.some = d.some || len(want.Of) > 1
				d.whole = d.whole && len(want.Of) == len(p.GPUs)
				for i, term := range want.Of { // sorted by rank
					d.whole = d.whole && term.Rank == i
				}
			}
		}
	}
	d.operator, d.mixed = p.Operator()
	return d
}

// effective returns the operator of a launch. If the plan reduces nothing, any operator is accepted and ignored: NCCL's
// interface takes none there.
func (d *reduction) effective(op datatype.Op) datatype.Op {
	if op.Valid() && !d.some {
		return datatype.Sum
	}
	return op
}

// before returns the factor by which a launch changes its input, and reports whether it does. Partial sums travel in
// the element type, so the terms of an average of floats are scaled by a power of two: finite terms have finite sums.
func (d *reduction) before(a *Args, ranks int) (factor [8]byte, ok bool) {
	if a.Op == datatype.Avg && d.some {
		return hostreduce.BeforeAverage(a.Type, ranks)
	}
	return a.Scalar, a.Op == datatype.PreMulSum
}

// takes returns nil if the plan can reduce by op, and the reason otherwise.
func (d *reduction) takes(op datatype.Op) error {
	if !d.some {
		return nil
	}
	scaled := op == datatype.Avg || op == datatype.PreMulSum
	if scaled {
		if !d.whole {
			return fmt.Errorf("%w: %v: some output of the plan is not a reduction over all ranks", collective.ErrUnsupported, op)
		}
		op = datatype.Sum // input is scaled before, or output after
	}
	if d.mixed && (d.named || scaled || op != datatype.Sum) || !d.mixed && d.operator.Or(op) != op {
		return invalid("the plan names its operator of reduction, which is not %v", op)
	}
	return nil
}
