package executor

import (
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/plan"
)

// reduction describes which operators a plan supports. It depends on the plan alone, so that all ranks accept, scale or
// reject the same operators, whichever ranks do the additions.
type reduction struct {
	some     bool          // some output is the result of a reduction
	whole    bool          // all output is a reduction over all ranks, so it can be averaged
	mixed    bool          // reductions specify different operators
	operator plan.ReduceOp // the operator of all reductions; CallerOp when the caller chooses it
}

func reductionOf(p *plan.Plan) (d reduction) {
	switch p.Collective {
	case plan.AllReduce, plan.ReduceScatter, plan.Reduce:
		d.some, d.whole = true, true
	case plan.AllGather, plan.AllToAll, plan.Broadcast, plan.SendRecv:
	default:
		d.whole = true
		for r := range p.GPUs {
			for _, terms := range p.Expected(r) {
				d.some = d.some || len(terms) > 1
				d.whole = d.whole && overAllRanks(terms, len(p.GPUs))
			}
		}
	}
	d.operator, d.mixed = p.Operator()
	return d
}

// overAllRanks reports whether terms, sorted by rank, are one chunk of each rank.
func overAllRanks(terms []plan.Contribution, ranks int) bool {
	if len(terms) != ranks {
		return false
	}
	for r := range terms {
		if terms[r].Rank != r {
			return false
		}
	}
	return true
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
	if op == datatype.Avg || op == datatype.PreMulSum {
		if !d.whole {
			return fmt.Errorf("%w: %v: some output of the plan is not a reduction over all ranks", collective.ErrUnsupported, op)
		}
		op = datatype.Sum // input is scaled before, or output after
	}
	if d.mixed && op != datatype.Sum || !d.mixed && d.operator.Or(op) != op {
		return invalid("the plan names its operator of reduction, which is not %v", op)
	}
	return nil
}
