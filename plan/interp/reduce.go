package interp

import (
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/hostreduce"
)

// reduce reduces srcs into dst in order: 16- and 8-bit floats in float32, rounded once for each op of a plan.
func (m *machine) reduce(dst []byte, srcs [][]byte, op datatype.Op) {
	if err := hostreduce.Reduce(dst, srcs, m.cfg.Type, op, [8]byte{}, len(srcs)); err != nil {
		panic(err) // Run has checked the type and the operator, and pieces are whole elements
	}
}
