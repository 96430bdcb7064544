package hostreduce

import (
	"unsafe"

	"github.com/goccl/goccl/datatype"
)

// blockElems is how many elements are folded at a time: accumulators and a decoded source stay in the first-level cache. Accumulating beside
// dst, not in it, is what lets dst be any of the sources.
const blockElems = 512

// reduceGeneric is Reduce from byte first on, in plain Go. The sources are not empty.
func reduceGeneric(dst []byte, srcs [][]byte, first int, t datatype.Type, op datatype.Op, scalar [8]byte, nranks int) {
	switch t {
	case datatype.Int8:
		reduceInt[int8](dst, srcs, first, op, scalar, nranks)
	case datatype.Uint8:
		reduceInt[uint8](dst, srcs, first, op, scalar, nranks)
	case datatype.Int32:
		reduceInt[int32](dst, srcs, first, op, scalar, nranks)
	case datatype.Uint32:
		reduceInt[uint32](dst, srcs, first, op, scalar, nranks)
	case datatype.Int64:
		reduceInt[int64](dst, srcs, first, op, scalar, nranks)
	case datatype.Uint64:
		reduceInt[uint64](dst, srcs, first, op, scalar, nranks)
	case datatype.Float32:
		reduceFloat[float32](dst, srcs, first, op, scalar, nranks)
	case datatype.Float64:
		reduceFloat[float64](dst, srcs, first, op, scalar, nranks)
	default:
		reduceSmallFloat(dst, srcs, first, t, op, scalar, nranks)
	}
}

type integer interface {
	int8 | uint8 | int32 | uint32 | int64 | uint64
}

type float interface{ float32 | float64 }

// elems views count elements of T at byte offset off of b. They may lie at any address: amd64 and arm64 load and store unaligned.
func elems[T any](b []byte, off, count int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b[off:]))), count)
}

func scalarOf[T any](s [8]byte) T { return *(*T)(unsafe.Pointer(&s)) }

func reduceInt[T integer](dst []byte, srcs [][]byte, first int, op datatype.Op, scalar [8]byte, nranks int) {
	var block [blockElems]T
	size := int(unsafe.Sizeof(block[0]))
	factor := scalarOf[T](scalar)
	for off := first; off < len(dst); off += blockElems * size {
		acc := block[:min(blockElems, (len(dst)-off)/size)]
		copy(acc, elems[T](srcs[0], off, len(acc)))
		if op == datatype.PreMulSum {
			for i := range acc {
				acc[i] *= factor
			}
		}
		for _, s := range srcs[1:] {
			foldInt(acc, elems[T](s, off, len(acc)), op, factor)
		}
		if op == datatype.Avg {
			divideInt(acc, nranks)
		}
		copy(elems[T](dst, off, len(acc)), acc)
	}
}

func foldInt[T integer](acc, x []T, op datatype.Op, factor T) {
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
	case datatype.Max:
		for i := range acc {
			acc[i] = max(acc[i], x[i])
		}
	case datatype.Min:
		for i := range acc {
			acc[i] = min(acc[i], x[i])
		}
	case datatype.PreMulSum:
		for i := range acc {
			acc[i] += x[i] * factor
		}
	}
}

// divideInt divides in 64 bits, because a number of ranks need not fit a small T.
func divideInt[T integer](acc []T, nranks int) {
	if T(0)-1 > 0 { // unsigned
		for i := range acc {
			acc[i] = T(uint64(acc[i]) / uint64(nranks))
		}
		return
	}
	for i := range acc {
		acc[i] = T(int64(acc[i]) / int64(nranks))
	}
}

func reduceFloat[T float](dst []byte, srcs [][]byte, first int, op datatype.Op, scalar [8]byte, nranks int) {
	var block [blockElems]T
	size := int(unsafe.Sizeof(block[0]))
	factor := scalarOf[T](scalar)
	for off := first; off < len(dst); off += blockElems * size {
		acc := block[:min(blockElems, (len(dst)-off)/size)]
		copy(acc, elems[T](srcs[0], off, len(acc)))
		if op == datatype.PreMulSum {
			scaleFloat(acc, factor)
		}
		for _, s := range srcs[1:] {
			foldFloat(acc, elems[T](s, off, len(acc)), op, factor)
		}
		if op == datatype.Avg {
			scaleFloat(acc, 1/T(nranks))
		}
		copy(elems[T](dst, off, len(acc)), acc)
	}
}

func scaleFloat[T float](acc []T, factor T) {
	for i := range acc {
		acc[i] *= factor
	}
}

// foldFloat folds x into acc. The conversion T(…) around a product forbids the compiler to fuse it with the sum.
func foldFloat[T float](acc, x []T, op datatype.Op, factor T) {
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
	case datatype.Max:
		for i := range acc {
			acc[i] = maxNum(acc[i], x[i])
		}
	case datatype.Min:
		for i := range acc {
			acc[i] = minNum(acc[i], x[i])
		}
	case datatype.PreMulSum:
		for i := range acc {
			acc[i] += T(x[i] * factor)
		}
	}
}

// maxNum is the greater of two, a number rather than a NaN, and +0 rather than -0.
func maxNum[T float](a, b T) T {
	switch {
	case a > b || b != b:
		return a
	case a == b && a == 0 && 1/b < 0:
		return a
	}
	return b
}

// minNum is the lesser of two, a number rather than a NaN, and -0 rather than +0.
func minNum[T float](a, b T) T {
	switch {
	case a < b || b != b:
		return a
	case a == b && a == 0 && 1/a < 0:
		return a
	}
	return b
}

// reduceSmallFloat reduces 16- and 8-bit floats by way of float32.
func reduceSmallFloat(dst []byte, srcs [][]byte, first int, t datatype.Type, op datatype.Op, scalar [8]byte, nranks int) {
	if op == datatype.Max || op == datatype.Min {
		reduceSmallExtremum(dst, srcs, first, t, op == datatype.Max)
		return
	}
	var block, decoded [blockElems]float32
	size := int(t.Size())
	var factor [1]float32
	decode(factor[:], scalar[:], t)
	for off := first; off < len(dst); off += blockElems * size {
		n := min(blockElems, (len(dst)-off)/size)
		acc, x := block[:n], decoded[:n]
		decode(acc, srcs[0][off:], t)
		if op == datatype.PreMulSum {
			scaleFloat(acc, factor[0])
		}
		for _, s := range srcs[1:] {
			decode(x, s[off:], t)
			foldFloat(acc, x, op, factor[0])
		}
		if op == datatype.Avg {
			scaleFloat(acc, 1/float32(nranks))
		}
		encode(dst[off:], acc, t)
	}
}

// reduceSmallExtremum selects among the encoded elements, so that nothing is rounded and E5M2's infinity survives.
func reduceSmallExtremum(dst []byte, srcs [][]byte, first int, t datatype.Type, wantMax bool) {
	size := int(t.Size())
	var block, decoded [blockElems]float32
	var bits [blockElems * 2]byte
	for off := first; off < len(dst); off += blockElems * size {
		n := min(blockElems, (len(dst)-off)/size)
		acc, x, out := block[:n], decoded[:n], bits[:n*size]
		copy(out, srcs[0][off:])
		decode(acc, out, t)
		for _, s := range srcs[1:] {
			decode(x, s[off:], t)
			for i := range acc {
				v := minNum(acc[i], x[i])
				if wantMax {
					v = maxNum(acc[i], x[i])
				}
				if !same(v, acc[i]) {
					acc[i] = v
					copy(out[i*size:(i+1)*size], s[off+i*size:])
				}
			}
		}
		copy(dst[off:], out)
	}
}

func same(a, b float32) bool {
	return *(*uint32)(unsafe.Pointer(&a)) == *(*uint32)(unsafe.Pointer(&b)) || a != a && b != b
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
