package conformance

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/hostreduce"
)

// roughen fills b with numbers of either sign and of magnitudes from 1/8 to 16, with random bits in the whole mantissa:
// nearly every sum of three of them depends on the order.
func roughen(b []byte, t datatype.Type, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 35))
	number := func() float64 {
		return math.Ldexp(1+rng.Float64(), rng.IntN(7)-3) * float64(1-2*rng.IntN(2))
	}
	switch t {
	case datatype.Float64:
		for i := 0; i < len(b); i += 8 {
			binary.LittleEndian.PutUint64(b[i:], math.Float64bits(number()))
		}
	case datatype.Float32:
		for i := 0; i < len(b); i += 4 {
			binary.LittleEndian.PutUint32(b[i:], math.Float32bits(float32(number())))
		}
	default:
		wide := make([]float32, len(b)/int(t.Size()))
		for i := range wide {
			wide[i] = float32(number())
		}
		hostreduce.Encode(b, wide, t)
	}
}

// InRankOrder is the sum of all ranks' elements, in the order of ranks.
func InRankOrder(srcs [][]byte, t datatype.Type) []byte {
	dst := make([]byte, len(srcs[0]))
	if err := inRankOrder(dst, srcs, t, datatype.Sum); err != nil {
		panic(err) // t is a float
	}
	return dst
}

// inRankOrder is the reference: the first rank's element, and the others in the order of ranks, in the accumulator of
// the type, float for 8 and 16 bits; an average is multiplied by the reciprocal of the number of ranks; then one
// rounding.
func inRankOrder(dst []byte, srcs [][]byte, t datatype.Type, op datatype.Op) error {
	switch t {
	case datatype.Float64:
		wide := make([][]float64, len(srcs))
		for r, b := range srcs {
			for i := 0; i < len(b); i += 8 {
				wide[r] = append(wide[r], math.Float64frombits(binary.LittleEndian.Uint64(b[i:])))
			}
		}
		for i, x := range fold(wide, op) {
			binary.LittleEndian.PutUint64(dst[8*i:], math.Float64bits(x))
		}
	case datatype.Float32, datatype.Float16, datatype.Bfloat16, datatype.Float8E4M3, datatype.Float8E5M2:
		wide := make([][]float32, len(srcs))
		for r, b := range srcs {
			if wide[r] = make([]float32, len(b)/int(t.Size())); t != datatype.Float32 {
				hostreduce.Decode(wide[r], b, t)
				continue
			}
			for i := range wide[r] {
				wide[r][i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
			}
		}
		sums := fold(wide, op)
		if t != datatype.Float32 {
			hostreduce.Encode(dst, sums, t)
			break
		}
		for i, x := range sums {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		}
	default:
		return fmt.Errorf("conformance: %v has no order of terms", t)
	}
	return nil
}

func fold[T float32 | float64](srcs [][]T, op datatype.Op) []T {
	out := make([]T, len(srcs[0]))
	for i := range out {
		v := srcs[0][i]
		for _, s := range srcs[1:] {
			switch x := s[i]; op {
			case datatype.Prod:
				v *= x
			case datatype.Max:
				v = max(v, x)
			case datatype.Min:
				v = min(v, x)
			default:
				v += x
			}
		}
		if op == datatype.Avg {
			v *= 1 / T(len(srcs))
		}
		out[i] = v
	}
	return out
}

// bitsDiffer counts the elements that differ, and returns the first.
func bitsDiffer(a, b []byte, size int64) (wrong, first int64) {
	first = -1
	for i := int64(0); i < int64(len(b)); i += size {
		if string(a[i:i+size]) != string(b[i:i+size]) {
			if wrong++; first < 0 {
				first = i / size
			}
		}
	}
	return wrong, first
}
