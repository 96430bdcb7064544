package interp

import (
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/plan"
)

// operator returns the reduction that op stands for.
func (m *machine) operator(op plan.ReduceOp) datatype.Op {
	switch op {
	case plan.Sum:
		return datatype.Sum
	case plan.Min:
		return datatype.Min
	case plan.Max:
		return datatype.Max
	case plan.Prod:
		return datatype.Prod
	}
	return m.cfg.Op
}

// reduce reduces srcs into dst in order: 16- and 8-bit floats in float32, rounded once for each op of a plan.
func (m *machine) reduce(dst []byte, srcs [][]byte, op datatype.Op) {
	if err := hostreduce.Reduce(dst, srcs, m.cfg.Type, op, [8]byte{}, len(srcs)); err != nil {
		panic(err) // Run has checked the type and the operator, and pieces are whole elements
	}
}
