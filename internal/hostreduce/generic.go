package hostreduce

import (
	"math/bits"
	"unsafe"

	"github.com/goccl/goccl/datatype"
)

// blockElems is the number of elements that are reduced at a time: accumulators and a decoded source stay in the
// first-level cache. Accumulators outside dst allow dst to be any of the sources.
const blockElems = 128

// reduction holds Reduce's arguments, without the buffers.
type reduction struct {
	t      datatype.Type
	op     datatype.Op
	scalar [8]byte
	nranks int
}

// generic is Reduce by type from byte first on, in plain Go. The sources are not empty.
var generic = [datatype.NumTypes]func(dst []byte, srcs [][]byte, first int, r reduction){
	datatype.Int8: reduceInt[int8], datatype.Uint8: reduceInt[uint8],
	datatype.Int32: reduceInt[int32], datatype.Uint32: reduceInt[uint32],
	datatype.Int64: reduceInt[int64], datatype.Uint64: reduceInt[uint64],
	datatype.Float32: reduceFloat[float32], datatype.Float64: reduceFloat[float64],
	datatype.Float16: reduceSmallFloat, datatype.Bfloat16: reduceSmallFloat,
	datatype.Float8E4M3: reduceSmallFloat, datatype.Float8E5M2: reduceSmallFloat,
}

// tinyElems is the largest number of elements for which a loop over all sources for each element is faster. It matters
// for the latency of the smallest all-reduce.
const tinyElems = 8

// sumTiny computes Sum element by element.
func sumTiny[T number](dst []byte, srcs [][]byte, first int) {
	size := int(unsafe.Sizeof(T(0)))
	for off := first; off < len(dst); off += size {
		acc := elems[T](srcs[0], off, 1)[0]
		for _, s := range srcs[1:] {
			acc += elems[T](s, off, 1)[0]
		}
		elems[T](dst, off, 1)[0] = acc
	}
}

type integer interface {
	int8 | uint8 | int32 | uint32 | int64 | uint64
}

type float interface{ float32 | float64 }

type number interface{ integer | float }

// elems views count elements of T at byte offset off of b. They may be unaligned: amd64 and arm64 support unaligned
// loads and stores.
func elems[T any](b []byte, off, count int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b[off:]))), count)
}

func scalarOf[T any](s [8]byte) T { return *(*T)(unsafe.Pointer(&s)) }

func reduceInt[T integer](dst []byte, srcs [][]byte, first int, r reduction) {
	reduceNumbers(dst, srcs, first, r, extremumInt[T], divideInt[T])
}

func reduceFloat[T float](dst []byte, srcs [][]byte, first int, r reduction) {
	reduceNumbers(dst, srcs, first, r, extremumFloat[T], divideFloat[T])
}

// reduceNumbers reduces integers or floats, which differ in extremum and divide, the last step of Avg.
func reduceNumbers[T number](dst []byte, srcs [][]byte, first int, r reduction,
	extremum func(acc, x []T, op datatype.Op), divide func(acc []T, nranks int),
) {
	if r.op == datatype.Sum && len(dst)-first <= tinyElems*int(unsafe.Sizeof(T(0))) {
		sumTiny[T](dst, srcs, first)
		return
	}
	reduceBlocks(dst, srcs, first, r, extremum, divide)
}

// reduceBlocks is separate from reduceNumbers, because it has to clear a block on its stack.
func reduceBlocks[T number](dst []byte, srcs [][]byte, first int, r reduction,
	extremum func(acc, x []T, op datatype.Op), divide func(acc []T, nranks int),
) {
	var block [blockElems]T
	size := int(unsafe.Sizeof(block[0]))
	factor := scalarOf[T](r.scalar)
	for off := first; off < len(dst); off += blockElems * size {
		acc := block[:min(blockElems, (len(dst)-off)/size)]
		copy(acc, elems[T](srcs[0], off, len(acc)))
		if r.op == datatype.PreMulSum {
			scale(acc, factor)
		}
		for _, s := range srcs[1:] {
			x := elems[T](s, off, len(acc))
			if r.op == datatype.Max || r.op == datatype.Min {
				extremum(acc, x, r.op)
			} else {
				fold(acc, x, r.op, factor)
			}
		}
		if r.op == datatype.Avg {
			divide(acc, r.nranks)
		}
		copy(elems[T](dst, off, len(acc)), acc)
	}
}

func scale[T number](acc []T, factor T) {
	for i := range acc {
		acc[i] *= factor
	}
}

// fold reduces x into acc. The conversion T(…) around a product keeps the compiler from fusing it with the sum.
func fold[T number](acc, x []T, op datatype.Op, factor T) {
	x = x[:len(acc)]
	switch op {
	case datatype.Sum, datatype.Avg:
		for i := range acc {
			acc[i] += x[i]
		}
	case datatype.Prod:
		for i := range acc {
			acc[i] *= x[i]
		}
	case datatype.PreMulSum:
		for i := range acc {
			acc[i] += T(x[i] * factor)
		}
	}
}

func extremumInt[T integer](acc, x []T, op datatype.Op) {
	x = x[:len(acc)]
	if op == datatype.Max {
		for i := range acc {
			acc[i] = max(acc[i], x[i])
		}
		return
	}
	for i := range acc {
		acc[i] = min(acc[i], x[i])
	}
}

func extremumFloat[T float](acc, x []T, op datatype.Op) {
	x = x[:len(acc)]
	if op == datatype.Max {
		for i := range acc {
			acc[i] = maxNum(acc[i], x[i])
		}
		return
	}
	for i := range acc {
		acc[i] = minNum(acc[i], x[i])
	}
}

// divideInt divides in 64 bits, because the number of ranks may not fit a small T.
func divideInt[T integer](acc []T, nranks int) {
	unsigned := T(0)-1 > 0
	switch n := uint64(nranks); {
	case n&(n-1) == 0: // a shift, after adding n-1 to negative numbers
		shift, width := bits.TrailingZeros64(n), 8*unsafe.Sizeof(acc[0])-1
		for i, v := range acc {
			if unsigned {
				acc[i] = v >> shift
			} else {
				acc[i] = T((int64(v) + int64(v>>width)&int64(n-1)) >> shift)
			}
		}
	case unsigned:
		for i := range acc {
			acc[i] = T(uint64(acc[i]) / n)
		}
	default:
		for i := range acc {
			acc[i] = T(int64(acc[i]) / int64(nranks))
		}
	}
}

func divideFloat[T float](acc []T, nranks int) { scale(acc, 1/T(nranks)) }

// maxNum returns the greater of two, a number rather than a NaN, and +0 rather than -0.
func maxNum[T float](a, b T) T {
	switch {
	case a > b || b != b:
		return a
	case a == b && a == 0 && 1/b < 0:
		return a
	}
	return b
}

// minNum returns the lesser of two, a number rather than a NaN, and -0 rather than +0.
func minNum[T float](a, b T) T {
	switch {
	case a < b || b != b:
		return a
	case a == b && a == 0 && 1/a < 0:
		return a
	}
	return b
}

// reduceSmallFloat reduces 16- and 8-bit floats in float32.
func reduceSmallFloat(dst []byte, srcs [][]byte, first int, r reduction) {
	t, op := r.t, r.op
	var factor [1]float32
	decode(factor[:], r.scalar[:], t)
	if t == datatype.Float8E4M3 || t == datatype.Float8E5M2 {
		first = reduceFloat8(dst, srcs, first, r, factor[0])
	} else if op == datatype.Max || op == datatype.Min {
		greatest := uint16(0x7c00)
		if t == datatype.Bfloat16 {
			greatest = 0x7f80
		}
		extremum(dst, srcs, first, greatest, op == datatype.Max)
		return
	}
	var block, decoded [blockElems]float32
	size := int(t.Size())
	for off := first; off < len(dst); off += blockElems * size {
		n := min(blockElems, (len(dst)-off)/size)
		acc, x := block[:n], decoded[:n]
		decode(acc, srcs[0][off:], t)
		if op == datatype.PreMulSum {
			scale(acc, factor[0])
		}
		for _, s := range srcs[1:] {
			decode(x, s[off:], t)
			fold(acc, x, op, factor[0])
		}
		if op == datatype.Avg {
			divideFloat(acc, r.nranks)
		}
		encode(dst[off:], acc, t)
	}
}

// extremum selects among the encoded 16-bit elements, so that nothing is rounded.
// It maps elements to integers with the same order, of which the largest is the maximum. A number must win against NaN,
// so NaN becomes the least integer for Max and the greatest for Min; no number has these values. greatest is the
// greatest positive encoding that is not NaN.
func extremum(dst []byte, srcs [][]byte, first int, greatest uint16, wantMax bool) {
	const size, top, signShift = 2, uint16(0x8000), 15
	var block [blockElems]uint16
	turn := uint16(0) // Min is Max with all bits of the integers inverted
	if !wantMax {
		turn = ^turn
	}
	for off := first; off < len(dst); off += blockElems * size {
		acc := block[:min(blockElems, (len(dst)-off)/size)]
		clear(acc)
		for _, s := range srcs {
			for i, x := range elems[uint16](s, off, len(acc)) {
				// Inverts all bits of a negative number, and the top bit of a positive one. There is no branch, since
				// signs are unpredictable.
				k := x ^ (-(x >> signShift) | top) ^ turn
				if x&^top > greatest {
					k = 0
				}
				acc[i] = max(acc[i], k)
			}
		}
		out := elems[uint16](dst, off, len(acc))
		for i, k := range acc {
			k ^= turn
			out[i] = k ^ (k>>signShift - 1 | top)
		}
	}
}

// decode converts len(dst) elements of a small float type.
func decode(dst []float32, src []byte, t datatype.Type) {
	switch t {
	case datatype.Float16:
		for i, h := range elems[uint16](src, 0, len(dst)) {
			dst[i] = float16ToFloat32(h)
		}
	case datatype.Bfloat16:
		for i, h := range elems[uint16](src, 0, len(dst)) {
			dst[i] = bfloat16ToFloat32(h)
		}
	case datatype.Float8E4M3:
		for i, x := range src[:len(dst)] {
			dst[i] = e4m3ToFloat32[x]
		}
	case datatype.Float8E5M2:
		for i, x := range src[:len(dst)] {
			dst[i] = e5m2ToFloat32[x]
		}
	}
}

// encode converts len(src) elements to a small float type, each rounded once.
func encode(dst []byte, src []float32, t datatype.Type) {
	switch t {
	case datatype.Float16:
		d := elems[uint16](dst, 0, len(src))
		for i, f := range src {
			d[i] = float32ToFloat16(f)
		}
	case datatype.Bfloat16:
		d := elems[uint16](dst, 0, len(src))
		for i, f := range src {
			d[i] = float32ToBfloat16(f)
		}
	case datatype.Float8E4M3:
		for i, f := range src {
			dst[i] = float32ToE4M3(f)
		}
	case datatype.Float8E5M2:
		for i, f := range src {
			dst[i] = float32ToE5M2(f)
		}
	}
}
