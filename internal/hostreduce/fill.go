package hostreduce

import (
	"math"
	"unsafe"

	"github.com/goccl/goccl/datatype"
)

// Period is the number of elements after which Fill's data repeat. It is prime, so that no chunk of a usual size is a
// multiple of it. It is small enough that filling gigabytes, and computing their sums, runs at the speed of a copy.
const Period = 65521

// Fill writes the test data of a rank: element i depends only on seed, rank and i modulo Period. It is FillAt from
// element 0.
//
// The data make wrong results distinguishable from rounding. Sums of up to 64 ranks are exact in every type except the
// 8-bit floats (and nearly always in bfloat16), in any order. Products stay near 1, because the ranks 2k and 2k+1 of a
// pair have magnitudes in [1, 2) and [0.5, 1) and opposite signs. No element is 0 (integers excepted), NaN or infinite,
// so that a missing contribution always changes the result.
func Fill(dst []byte, t datatype.Type, seed uint64, rank int) { FillAt(dst, t, seed, rank, 0) }

// FillAt is Fill for a buffer that begins with element first.
func FillAt(dst []byte, t datatype.Type, seed uint64, rank int, first int64) {
	size := int(t.Size())
	if size == 0 {
		return
	}
	n := min(len(dst)/size, Period)
	defer repeat(dst, n*size)
	key := mix(seed ^ mix(uint64(rank)+0x9e3779b97f4a7c15))
	pair := mix(seed ^ mix(uint64(rank/2)+0x517cc1b727220a95))
	at := func(i int) uint64 { return mix(key + uint64((first+int64(i))%Period)) }
	// The sign is common to the pair and inverted for the odd rank; the magnitude is 1 + m/2^bits, halved for the odd
	// rank.
	real := func(i int, bits uint) float64 {
		v := 1 + float64(at(i)>>(64-bits))/float64(uint64(1)<<bits)
		if rank&1 != 0 {
			v /= 2
		}
		if mix(pair+uint64((first+int64(i))%Period))>>63 != uint64(rank&1) {
			v = -v
		}
		return v
	}
	switch t {
	case datatype.Int8:
		fill(dst, n, func(i int) int8 { return int8(at(i)>>62) - 2 })
	case datatype.Uint8:
		fill(dst, n, func(i int) uint8 { return uint8(at(i) >> 62) })
	case datatype.Int32:
		fill(dst, n, func(i int) int32 { return int32(at(i)>>39) - 1<<24 })
	case datatype.Uint32:
		fill(dst, n, func(i int) uint32 { return uint32(at(i) >> 39) })
	case datatype.Int64:
		fill(dst, n, func(i int) int64 { return int64(at(i)>>8) - 1<<55 })
	case datatype.Uint64:
		fill(dst, n, func(i int) uint64 { return at(i) >> 8 })
	case datatype.Float16:
		fill(dst, n, func(i int) uint16 { return float32ToFloat16(float32(real(i, 3))) })
	case datatype.Bfloat16:
		fill(dst, n, func(i int) uint16 { return float32ToBfloat16(float32(real(i, 2))) })
	case datatype.Float32:
		fill(dst, n, func(i int) float32 { return float32(real(i, 10)) })
	case datatype.Float64:
		fill(dst, n, func(i int) float64 { return real(i, 30) })
	case datatype.Float8E4M3:
		fill(dst, n, func(i int) uint8 { return float32ToE4M3(float32(real(i, 1))) })
	case datatype.Float8E5M2:
		fill(dst, n, func(i int) uint8 { return float32ToE5M2(float32(real(i, 1))) })
	}
}

// repeat fills dst with copies of its first n bytes.
func repeat(dst []byte, n int) {
	for n > 0 && n < len(dst) {
		n += copy(dst[n:], dst[:n])
	}
}

func fill[T any](dst []byte, n int, at func(int) T) {
	d := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(dst))), n)
	for i := range d {
		d[i] = at(i)
	}
}

// mix is the finalizer of splitmix64: every bit of the input changes every bit of the output.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// ScalarOf returns factor, rounded to t, as an element of t in memory order, for PreMulSum.
func ScalarOf(t datatype.Type, factor float64) (s [8]byte) {
	p := unsafe.Pointer(&s)
	switch t {
	case datatype.Int8:
		*(*int8)(p) = int8(factor)
	case datatype.Uint8:
		*(*uint8)(p) = uint8(factor)
	case datatype.Int32:
		*(*int32)(p) = int32(factor)
	case datatype.Uint32:
		*(*uint32)(p) = uint32(factor)
	case datatype.Int64:
		*(*int64)(p) = int64(factor)
	case datatype.Uint64:
		*(*uint64)(p) = uint64(factor)
	case datatype.Float32:
		*(*float32)(p) = float32(factor)
	case datatype.Float64:
		*(*uint64)(p) = math.Float64bits(factor)
	default:
		encode(s[:], []float32{float32(factor)}, t)
	}
	return s
}
