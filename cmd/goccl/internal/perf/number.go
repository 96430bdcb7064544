package perf

import (
	"encoding/binary"
	"math"

	"github.com/goccl/goccl/datatype"
)

// floating describes a small floating-point format: exponent bits, fraction bits, exponent bias.
type floating struct{ exp, frac, bias int }

func small(t datatype.Type) (floating, bool) {
	switch t {
	case datatype.Float16:
		return floating{5, 10, 15}, true
	case datatype.Bfloat16:
		return floating{8, 7, 127}, true
	case datatype.Float8E4M3:
		return floating{4, 3, 7}, true
	case datatype.Float8E5M2:
		return floating{5, 2, 15}, true
	}
	return floating{}, false
}

func isFloat(t datatype.Type) bool {
	_, ok := small(t)
	return ok || t == datatype.Float32 || t == datatype.Float64
}

func isSigned(t datatype.Type) bool {
	return t != datatype.Uint8 && t != datatype.Uint32 && t != datatype.Uint64
}

// encode writes v, rounded to nearest even for floating types, truncated for integers, as one element of t at the start
// of b.
func encode(b []byte, t datatype.Type, v float64) {
	switch t {
	case datatype.Int8:
		b[0] = byte(int8(v))
	case datatype.Uint8:
		b[0] = byte(v)
	case datatype.Int32:
		binary.LittleEndian.PutUint32(b, uint32(int32(v)))
	case datatype.Uint32:
		binary.LittleEndian.PutUint32(b, uint32(v))
	case datatype.Int64:
		binary.LittleEndian.PutUint64(b, uint64(int64(v)))
	case datatype.Uint64:
		binary.LittleEndian.PutUint64(b, uint64(v))
	case datatype.Float32:
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(v)))
	case datatype.Float64:
		binary.LittleEndian.PutUint64(b, math.Float64bits(v))
	default:
		f, _ := small(t)
		bits := f.encode(v)
		b[0] = byte(bits)
		if t.Size() == 2 {
			b[1] = byte(bits >> 8)
		}
	}
}

// decode reads one element.
func decode(b []byte, t datatype.Type) float64 {
	switch t {
	case datatype.Int8:
		return float64(int8(b[0]))
	case datatype.Uint8:
		return float64(b[0])
	case datatype.Int32:
		return float64(int32(binary.LittleEndian.Uint32(b)))
	case datatype.Uint32:
		return float64(binary.LittleEndian.Uint32(b))
	case datatype.Int64:
		return float64(int64(binary.LittleEndian.Uint64(b)))
	case datatype.Uint64:
		return float64(binary.LittleEndian.Uint64(b))
	case datatype.Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case datatype.Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	f, _ := small(t)
	bits := uint32(b[0])
	if t.Size() == 2 {
		bits |= uint32(b[1]) << 8
	}
	return f.decode(bits)
}

// encode handles zero and finite values in the normal range, which include all inputs and their reductions.
func (f floating) encode(v float64) uint32 {
	var sign uint32
	if math.Signbit(v) {
		sign = 1 << (f.exp + f.frac)
		v = -v
	}
	if v == 0 {
		return sign
	}
	e := math.Ilogb(v)
	m := uint32(math.RoundToEven(math.Ldexp(v, f.frac-e)))
	if m>>(f.frac+1) != 0 {
		m, e = m>>1, e+1
	}
	return sign | uint32(e+f.bias)<<f.frac | m&(1<<f.frac-1)
}

func (f floating) decode(bits uint32) float64 {
	frac := float64(bits & (1<<f.frac - 1))
	e := int(bits >> f.frac & (1<<f.exp - 1))
	top := 1<<f.exp - 1
	var v float64
	switch {
	case e == 0:
		v = math.Ldexp(frac, 1-f.bias-f.frac)
	case e == top && f.exp == 4:
		// e4m3 has no infinity: only the last pattern is NaN.
		if v = math.Ldexp(1+frac/8, e-f.bias); frac == 7 {
			v = math.NaN()
		}
	case e == top:
		if v = math.Inf(1); frac != 0 {
			v = math.NaN()
		}
	default:
		v = math.Ldexp(1+frac/float64(int(1)<<f.frac), e-f.bias)
	}
	if bits>>(f.exp+f.frac)&1 != 0 {
		v = -v
	}
	return v
}

// ulp is the distance from v to the next larger magnitude in t.
func ulp(t datatype.Type, v float64) float64 {
	frac, least := 52, -1022
	switch t {
	case datatype.Float32:
		frac, least = 23, -126
	case datatype.Float64:
	default:
		f, _ := small(t)
		frac, least = f.frac, 1-f.bias
	}
	e := least
	if v != 0 {
		e = max(e, math.Ilogb(v))
	}
	return math.Ldexp(1, e-frac)
}

// exact is the largest n such that every integer in 0..n is an element of t.
func exact(t datatype.Type) int64 {
	switch t {
	case datatype.Int8:
		return 127
	case datatype.Uint8:
		return 255
	case datatype.Float16:
		return 1 << 11
	case datatype.Bfloat16:
		return 1 << 8
	case datatype.Float8E4M3:
		return 1 << 4
	case datatype.Float8E5M2:
		return 1 << 3
	case datatype.Float32:
		return 1 << 24
	}
	return 1 << 30
}
