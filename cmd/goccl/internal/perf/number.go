package perf

import (
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/hostreduce"
)

func isFloat(t datatype.Type) bool { return hostreduce.Unit(t) > 0 }

func isSigned(t datatype.Type) bool {
	return t != datatype.Uint8 && t != datatype.Uint32 && t != datatype.Uint64
}

// encode writes v, rounded to nearest even for floating types, truncated for integers, as one element of t at the start
// of b.
func encode(b []byte, t datatype.Type, v float64) {
	s := hostreduce.ScalarOf(t, v)
	copy(b, s[:t.Size()])
}

// exact is the largest n, or 2³⁰, such that every integer in 0..n is an element of t.
func exact(t datatype.Type) int64 {
	switch {
	case isFloat(t):
		return int64(min(1/hostreduce.Unit(t), 1<<30))
	case t == datatype.Int8:
		return 127
	case t == datatype.Uint8:
		return 255
	}
	return 1 << 30
}
