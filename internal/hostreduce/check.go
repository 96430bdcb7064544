package hostreduce

import (
	"math"

	"github.com/goccl/goccl/datatype"
)

// Check compares a result with the expected values and returns the number of wrong elements and the index of the first
// (-1 when none).
//
// Integers, and the results of Max and Min, must be equal bit by bit, except that any NaN equals any NaN. Sums and
// products of floats may differ by the rounding error of any order of the nranks operands, with a rounding to t after
// each; see tolerance. A buffer of another length is wrong from the first missing element.
func Check(got, want []byte, t datatype.Type, op datatype.Op, nranks int) (wrong, firstIndex int64) {
	size := int(t.Size())
	firstIndex = -1
	if size == 0 {
		return int64(max(len(got), len(want), 1)), 0
	}
	miss := func(i int) {
		if wrong == 0 {
			firstIndex = int64(i)
		}
		wrong++
	}
	n := min(len(got), len(want)) / size
	relative, absolute := tolerance(t, op, nranks)
	exact := relative == 0
	switch {
	case string(got[:n*size]) == string(want[:n*size]):
	case exact && !isFloat(t):
		for i := range n {
			if string(got[i*size:(i+1)*size]) != string(want[i*size:(i+1)*size]) {
				miss(i)
			}
		}
	default:
		for i := range n {
			g, w := FloatAt(got, i, t), FloatAt(want, i, t)
			if math.Float64bits(g) == math.Float64bits(w) || g != g && w != w {
				continue
			}
			if exact || !(math.Abs(g-w) <= relative*math.Abs(w)+absolute) {
				miss(i)
			}
		}
	}
	for i := n; i < max(len(got), len(want))/size; i++ {
		miss(i)
	}
	return wrong, firstIndex
}

func isFloat(t datatype.Type) bool { return Unit(t) > 0 }

// Unit is half the distance from 1 to the next number: the largest relative error of one rounding. Integers have 0.
func Unit(t datatype.Type) float64 { return units[t] }

var units = [1 << 8]float64{datatype.Float16: 0x1p-11, datatype.Bfloat16: 0x1p-8, datatype.Float32: 0x1p-24,
	datatype.Float64: 0x1p-53, datatype.Float8E4M3: 0x1p-4, datatype.Float8E5M2: 0x1p-3}

// tolerance bounds |got-want| by relative·|want| + absolute. The error of a product of n operands is at most about n
// roundings, each relative to the result. The error of a sum is n roundings relative to partial sums, whose size is not
// known here: Fill's data keep them below 2 + sqrt(n), with very rare exceptions, and Avg's are n times smaller.
func tolerance(t datatype.Type, op datatype.Op, nranks int) (relative, absolute float64) {
	u, n := Unit(t), float64(max(nranks, 2))
	if t == datatype.Float8E4M3 || t == datatype.Float8E5M2 {
		n = min(n, 4) // a larger bound would accept any value; implementations round to 8 bits only a few times
	}
	switch op {
	case datatype.Max, datatype.Min:
		return 0, 0
	case datatype.Prod:
		return 2 * n * u, 0
	case datatype.Avg:
		return n * u, u * (2 + math.Sqrt(n)) / n
	}
	return n * u, u * (2 + math.Sqrt(n))
}

// FloatAt returns element i as a float64, exactly.
func FloatAt(b []byte, i int, t datatype.Type) float64 {
	switch t {
	case datatype.Float32:
		return float64(elems[float32](b, i*4, 1)[0])
	case datatype.Float64:
		return elems[float64](b, i*8, 1)[0]
	}
	var f [1]float32
	decode(f[:], b[i*int(t.Size()):], t)
	return float64(f[0])
}
