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

// extremumInt compares bytes as ints, because the compiler has a branch for max and min of bytes.
func extremumInt[T integer](acc, x []T, op datatype.Op) {
	x = x[:len(acc)]
	switch bytes := unsafe.Sizeof(T(0)) == 1; {
	case bytes && op == datatype.Max:
		for i := range acc {
			acc[i] = T(max(int(acc[i]), int(x[i])))
		}
	case bytes:
		for i := range acc {
			acc[i] = T(min(int(acc[i]), int(x[i])))
		}
	case op == datatype.Max:
		for i := range acc {
			acc[i] = max(acc[i], x[i])
		}
	default:
		for i := range acc {
			acc[i] = min(acc[i], x[i])
		}
	}
}

// extremumFloat relies on max and min, which order +0 and -0.
func extremumFloat[T float](acc, x []T, op datatype.Op) {
	x = x[:len(acc)]
	if op == datatype.Max {
		for i, a := range acc {
			acc[i] = skipNaN(max(a, x[i]), a, x[i])
		}
		return
	}
	for i, a := range acc {
		acc[i] = skipNaN(min(a, x[i]), a, x[i])
	}
}

// skipNaN returns the extremum of a and b, which is NaN if either is one: then the other, which may be a number.
func skipNaN[T float](extremum, a, b T) T {
	if extremum == extremum {
		return extremum
	}
	if a == a {
		return a
	}
	return b
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

// reduceSmallFloat reduces 16- and 8-bit floats in float32.
func reduceSmallFloat(dst []byte, srcs [][]byte, first int, r reduction) {
	t, op := r.t, r.op
	var factor [1]float32
	decode(factor[:], r.scalar[:], t)
	if op == datatype.Max || op == datatype.Min {
		extremum(dst, srcs, first, t, op == datatype.Max)
		return
	}
	if op != datatype.PreMulSum {
		factor[0] = 1
	}
	values := float8Values[t]
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
			if values != nil && op != datatype.Prod {
				addFloat8(acc, s[off:], values, factor[0])
				continue
			}
			decode(x, s[off:], t)
			fold(acc, x, op, factor[0])
		}
		if op == datatype.Avg {
			divideFloat(acc, r.nranks)
		}
		encode(dst[off:], acc, t)
	}
}

// addFloat8 adds factor times each 8-bit float to acc. It is fold without a decoded source between.
func addFloat8(acc []float32, src []byte, values *[256]float32, factor float32) {
	for i, x := range src[:len(acc)] {
		acc[i] += float32(values[x] * factor)
	}
}

// extremum selects among the encoded elements, so that nothing is rounded. The largest key is the extremum's.
func extremum(dst []byte, srcs [][]byte, first int, t datatype.Type, wantMax bool) {
	var block [blockElems]uint // the compiler has a branch for max of smaller ones
	greatest, turn, keys := greatestEncoding[t], uint16(0), float8Keys[t]
	if !wantMax {
		turn = 0xffff
	}
	size := int(t.Size())
	for off := first; off < len(dst); off += blockElems * size {
		acc := block[:min(blockElems, (len(dst)-off)/size)]
		clear(acc)
		for _, s := range srcs {
			if keys != nil {
				table := &keys[turn&1]
				for i, x := range s[off : off+len(acc)] {
					acc[i] = max(acc[i], uint(table[x]))
				}
				continue
			}
			x := elems[uint16](s, off, len(acc))
			for i, x := range x[:len(acc)] {
				acc[i] = max(acc[i], uint(extremumKey(x, greatest, turn)))
			}
		}
		for i, key := range acc {
			k := uint16(key) ^ turn
			x := k ^ (k>>15 - 1 | 0x8000)
			if keys != nil {
				dst[off+i] = uint8(x >> 8)
			} else {
				elems[uint16](dst, off+2*i, 1)[0] = x
			}
		}
	}
}

// extremumKey maps a 16-bit element, or an 8-bit one in the upper half, to an integer with the same order. A number
// must win against NaN, so NaN becomes the least; no number has this value. greatest is the greatest positive encoding
// that is not NaN. turn is 0 for Max. For Min it is 0xffff: Min is Max with all bits of the keys inverted.
func extremumKey(x, greatest, turn uint16) uint16 {
	// Inverts all bits of a negative number, and the top bit of a positive one. There is no branch, since signs are
	// unpredictable.
	k := x ^ (-(x >> 15) | 0x8000) ^ turn
	if x&0x7fff > greatest {
		k = 0
	}
	return k
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
