package interp

import (
	"encoding/binary"
	"math"

	"github.com/goccl/goccl/datatype"
)

// reduce sets dst = dst op src, element by element. Half, bfloat16 and the 8-bit floats are not here: how they round is the executors' own
// business, and the order of a plan can be tested with exact types.
func reduce(dst, src []byte, t datatype.Type, op datatype.Op) {
	le := binary.LittleEndian
	for i := 0; i+int(t.Size()) <= len(dst); i += int(t.Size()) {
		d, s := dst[i:], src[i:]
		switch t {
		case datatype.Int8:
			d[0] = byte(apply(int8(d[0]), int8(s[0]), op))
		case datatype.Uint8:
			d[0] = apply(d[0], s[0], op)
		case datatype.Int32:
			le.PutUint32(d, uint32(apply(int32(le.Uint32(d)), int32(le.Uint32(s)), op)))
		case datatype.Uint32:
			le.PutUint32(d, apply(le.Uint32(d), le.Uint32(s), op))
		case datatype.Int64:
			le.PutUint64(d, uint64(apply(int64(le.Uint64(d)), int64(le.Uint64(s)), op)))
		case datatype.Uint64:
			le.PutUint64(d, apply(le.Uint64(d), le.Uint64(s), op))
		case datatype.Float32:
			le.PutUint32(d, math.Float32bits(apply(math.Float32frombits(le.Uint32(d)), math.Float32frombits(le.Uint32(s)), op)))
		case datatype.Float64:
			le.PutUint64(d, math.Float64bits(apply(math.Float64frombits(le.Uint64(d)), math.Float64frombits(le.Uint64(s)), op)))
		}
	}
}

type number interface {
	int8 | uint8 | int32 | uint32 | int64 | uint64 | float32 | float64
}

func apply[T number](a, b T, op datatype.Op) T {
	switch op {
	case datatype.Min:
		return min(a, b)
	case datatype.Max:
		return max(a, b)
	case datatype.Prod:
		return a * b
	}
	return a + b
}
