package hostreduce

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/goccl/goccl/datatype"
)

// An average of finite elements is finite, and the sum that it is made of may not be. The usual way is followed first:
// the sum, times the reciprocal of the number of ranks. Where that is infinite or NaN, the element is computed again
// from sources that are scaled by a power of two before they are added.

// averagePiece is the number of bytes that are averaged at a time, beside the destination, which may be a source.
const averagePiece = 4 << 10

type averaging struct {
	out  [averagePiece]byte
	srcs [][]byte
}

var averagings = sync.Pool{New: func() any { return new(averaging) }}

// overflows reports whether the sum of finite elements can be infinite in the type that it is computed in.
func overflows(t datatype.Type) bool {
	return t == datatype.Float32 || t == datatype.Float64 || t == datatype.Bfloat16
}

// average is Reduce for Avg of types whose sums overflow.
func average(dst []byte, srcs [][]byte, t datatype.Type, nranks int) {
	a := averagings.Get().(*averaging)
	defer averagings.Put(a)
	for off := 0; off < len(dst); off += averagePiece {
		out := a.out[:min(averagePiece, len(dst)-off)]
		a.srcs = a.srcs[:0]
		for _, s := range srcs {
			a.srcs = append(a.srcs, s[off:off+len(out)])
		}
		reduce(out, a.srcs, reduction{t: t, op: datatype.Avg, nranks: nranks})
		a.mend(out, t, nranks)
		copy(dst[off:], out)
	}
	clear(a.srcs)
}

// mend computes the elements of out again that are not finite. Their exponent is all ones: adding a one in its last
// place carries into the sign, for all elements of a word at once.
func (a *averaging) mend(out []byte, t datatype.Type, nranks int) {
	exponent, last, sign := uint64(0x7ff0<<48), uint64(1<<52), uint64(1<<63)
	switch t {
	case datatype.Float32:
		exponent, last, sign = 0x7f800000_7f800000, 0x00800000_00800000, 0x80000000_80000000
	case datatype.Bfloat16:
		exponent, last, sign = 0x7f80_7f80_7f80_7f80, 0x0080_0080_0080_0080, 0x8000_8000_8000_8000
	}
	at := 0
	for ; at+8 <= len(out); at += 8 {
		if (binary.NativeEndian.Uint64(out[at:])&exponent+last)&sign != 0 {
			a.again(out[:at+8], at, t, nranks)
		}
	}
	a.again(out, at, t, nranks)
}

// again computes the elements from byte at on. Elements whose sums are finite stay the same.
func (a *averaging) again(out []byte, at int, t datatype.Type, nranks int) {
	size := int(t.Size())
	for ; at < len(out); at += size {
		if f := FloatAt(out[at:], 0, t); f-f == 0 {
			continue
		}
		if t == datatype.Float64 {
			avg := elems[float64](out, at, 1)
			avg[0] = scaledSum[float64](a.srcs, at, t, nranks)
			endAverage(avg, t, nranks)
			continue
		}
		encodeAverage(out[at:at+size], []float32{scaledSum[float32](a.srcs, at, t, nranks)}, t, nranks)
	}
}

// scaledSum begins with the first source instead of zero, so that a sum of negative zeros keeps its sign.
func scaledSum[T float](srcs [][]byte, at int, t datatype.Type, nranks int) (sum T) {
	before, _ := averageScale[T](nranks)
	for r, s := range srcs {
		x := T(FloatAt(s[at:], 0, t)) * before
		if r == 0 {
			sum = x
			continue
		}
		sum += x
	}
	return sum
}

// BeforeAverage returns the power of two by which each rank scales its elements if the ranks' sum is rounded to t on
// its way to an average; EndAverage must follow then. ok is false if no sum of t is infinite: Reduce averages it.
func BeforeAverage(t datatype.Type, nranks int) (scalar [8]byte, ok bool) {
	before, _ := averageScale[float64](nranks)
	return ScalarOf(t, before), overflows(t) || t == datatype.Float16
}

// EndAverage turns sums of elements so scaled into averages.
func EndAverage(dst []byte, t datatype.Type, nranks int) {
	switch t {
	case datatype.Float64:
		endAverage(elems[float64](dst, 0, len(dst)/8), t, nranks)
	case datatype.Float32:
		endAverage(elems[float32](dst, 0, len(dst)/4), t, nranks)
	default:
		var block [blockElems]float32
		for len(dst) > 0 {
			acc := block[:min(blockElems, len(dst)/2)]
			decode(acc, dst, t)
			encodeAverage(dst, acc, t, nranks)
			dst = dst[2*len(acc):]
		}
	}
}

func encodeAverage(dst []byte, sums []float32, t datatype.Type, nranks int) {
	endAverage(sums, t, nranks)
	Encode(dst, sums, t)
}

// endAverage multiplies scaled sums by 2^k/nranks. Rounding may take a product beyond the largest number of t; that is
// then the average.
func endAverage[T float](sums []T, t datatype.Type, nranks int) {
	_, after := averageScale[T](nranks)
	most := T(largest(t))
	for i, sum := range sums {
		avg := sum * after
		if (avg > most || avg < -most) && sum-sum == 0 {
			avg = T(math.Copysign(float64(most), float64(sum)))
		}
		sums[i] = avg
	}
}

// averageScale splits the reciprocal of nranks, rounded to T, into a power of two 2^-k and a factor from 1 to 2.
func averageScale[T float](nranks int) (before, after T) {
	fraction, exponent := math.Frexp(float64(1 / T(nranks)))
	return T(math.Ldexp(0.5, exponent)), T(2 * fraction)
}

func largest(t datatype.Type) float64 {
	switch t {
	case datatype.Float16:
		return 65504
	case datatype.Bfloat16:
		return 0xffp120
	case datatype.Float32:
		return math.MaxFloat32
	}
	return math.MaxFloat64
}
