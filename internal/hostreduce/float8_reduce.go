package hostreduce

import (
	"encoding/binary"

	"github.com/goccl/goccl/datatype"
)

// float8Elems is the number of 8-bit floats that are reduced at a time, with accumulators in registers. One load
// brings all of them, and a table look-up each gives their values.
const float8Elems = 8

// float8Format is what reductions of one format need.
type float8Format struct {
	value   *[256]float32
	round   func(dst []byte, src *[float8Elems]float32)
	key     [2][256]uint8 // for Min and Max: larger is better, and NaN is 0
	element [2][256]uint8 // the inverse of key
}

var float8Formats = [2]float8Format{
	newFloat8Format(&e4m3ToFloat32, roundE4M3, 0x7e), newFloat8Format(&e5m2ToFloat32, roundE5M2, 0x7c),
}

// newFloat8Format makes the keys: greatest is the greatest positive encoding that is not NaN. See extremum.
func newFloat8Format(value *[256]float32, round func([]byte, *[float8Elems]float32), greatest uint8) float8Format {
	f := float8Format{value: value, round: round}
	for largest, turn := range []uint8{0xff, 0} {
		for i := range 256 {
			x := uint8(i)
			k := x ^ (-(x >> 7) | 0x80) ^ turn
			if x&0x7f > greatest {
				k = 0
			}
			f.key[largest][i] = k
			if k != 0 || x == 0x7f {
				f.element[largest][k] = x
			}
		}
	}
	return f
}

func formatOf(t datatype.Type) *float8Format { return &float8Formats[t-datatype.Float8E4M3] }

// reduceFloat8 reduces from byte first on and returns where it has stopped: at the end for Max and Min, after the last
// whole group of float8Elems for sums. It leaves Prod, and PreMulSum of little data, to its caller.
func reduceFloat8(dst []byte, srcs [][]byte, first int, r reduction, factor float32) int {
	f, scale := formatOf(r.t), float32(1)
	value := f.value
	switch r.op {
	case datatype.Max, datatype.Min:
		largest := 0
		if r.op == datatype.Max {
			largest = 1
		}
		return extremumFloat8(dst, srcs, first, &f.key[largest], &f.element[largest])
	case datatype.Avg:
		scale = 1 / float32(r.nranks)
	case datatype.PreMulSum:
		if len(dst)-first < 256 {
			return first
		}
		value = new([256]float32)
		for i := range value {
			value[i] = f.value[i] * factor
		}
	case datatype.Prod:
		return first
	}
	return sumFloat8(dst, srcs, first, value, scale, f.round)
}

// sumFloat8 adds the values of the sources, and multiplies the sums by scale.
func sumFloat8(dst []byte, srcs [][]byte, at int, value *[256]float32, scale float32,
	round func([]byte, *[float8Elems]float32)) int {
	var sums [float8Elems]float32
	for ; at+float8Elems <= len(dst); at += float8Elems {
		w := word(srcs[0], at)
		a0, a1, a2, a3 := value[uint8(w)], value[uint8(w>>8)], value[uint8(w>>16)], value[uint8(w>>24)]
		a4, a5, a6, a7 := value[uint8(w>>32)], value[uint8(w>>40)], value[uint8(w>>48)], value[uint8(w>>56)]
		for _, s := range srcs[1:] {
			w := word(s, at)
			a0 += value[uint8(w)]
			a1 += value[uint8(w>>8)]
			a2 += value[uint8(w>>16)]
			a3 += value[uint8(w>>24)]
			a4 += value[uint8(w>>32)]
			a5 += value[uint8(w>>40)]
			a6 += value[uint8(w>>48)]
			a7 += value[uint8(w>>56)]
		}
		sums = [float8Elems]float32{a0 * scale, a1 * scale, a2 * scale, a3 * scale, a4 * scale, a5 * scale, a6 * scale,
			a7 * scale}
		round(dst[at:], &sums)
	}
	return at
}

func roundE4M3(dst []byte, src *[float8Elems]float32) {
	dst = dst[:float8Elems]
	for i, f := range src {
		dst[i] = float32ToE4M3(f)
	}
}

func roundE5M2(dst []byte, src *[float8Elems]float32) {
	dst = dst[:float8Elems]
	for i, f := range src {
		dst[i] = float32ToE5M2(f)
	}
}

// extremumFloat8 takes the elements with the largest keys.
func extremumFloat8(dst []byte, srcs [][]byte, at int, key, element *[256]uint8) int {
	for ; at+float8Elems <= len(dst); at += float8Elems {
		var a0, a1, a2, a3, a4, a5, a6, a7 uint // the compiler has a branch for smaller ones
		for _, s := range srcs {
			w := word(s, at)
			a0 = max(a0, uint(key[uint8(w)]))
			a1 = max(a1, uint(key[uint8(w>>8)]))
			a2 = max(a2, uint(key[uint8(w>>16)]))
			a3 = max(a3, uint(key[uint8(w>>24)]))
			a4 = max(a4, uint(key[uint8(w>>32)]))
			a5 = max(a5, uint(key[uint8(w>>40)]))
			a6 = max(a6, uint(key[uint8(w>>48)]))
			a7 = max(a7, uint(key[uint8(w>>56)]))
		}
		for i, a := range [float8Elems]uint{a0, a1, a2, a3, a4, a5, a6, a7} {
			dst[at+i] = element[uint8(a)]
		}
	}
	for ; at < len(dst); at++ {
		var a uint
		for _, s := range srcs {
			a = max(a, uint(key[s[at]]))
		}
		dst[at] = element[uint8(a)]
	}
	return at
}

// word loads float8Elems elements, the first into the lowest byte.
func word(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
