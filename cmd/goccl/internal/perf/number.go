package perf

import (
	"encoding/binary"
	"math"

	"github.com/goccl/goccl/datatype"
)

// floating describes a floating-point format: exponent bits, fraction bits, exponent bias.
type floating struct{ exp, frac, bias int }

var floats = map[datatype.Type]floating{
	datatype.Float64: {11, 52, 1023}, datatype.Float32: {8, 23, 127}, datatype.Float16: {5, 10, 15},
	datatype.Bfloat16: {8, 7, 127}, datatype.Float8E4M3: {4, 3, 7}, datatype.Float8E5M2: {5, 2, 15},
}

func isFloat(t datatype.Type) bool { return floats[t].exp > 0 }

func isSigned(t datatype.Type) bool {
	return t != datatype.Uint8 && t != datatype.Uint32 && t != datatype.Uint64
}

// encode writes v, rounded to nearest even for floating types, truncated for integers, as one element of t at the start
// of b.
func encode(b []byte, t datatype.Type, v float64) {
	var bits uint64
	switch f, ok := floats[t]; {
	case t == datatype.Float32: // as f.encode does, and faster
		bits = uint64(math.Float32bits(float32(v)))
	case t == datatype.Float64:
		bits = math.Float64bits(v)
	case ok:
		bits = f.encode(v)
	default: // two's complement
		bits = uint64(int64(v))
	}
	var wide [8]byte
	binary.LittleEndian.PutUint64(wide[:], bits)
	copy(b, wide[:t.Size()])
}

// decode reads one element.
func decode(b []byte, t datatype.Type) float64 {
	var wide [8]byte
	copy(wide[:], b[:t.Size()])
	bits := binary.LittleEndian.Uint64(wide[:])
	switch f, ok := floats[t]; {
	case t == datatype.Float64:
		return math.Float64frombits(bits)
	case ok:
		return f.decode(bits)
	case isSigned(t):
		unused := 64 - 8*t.Size()
		return float64(int64(bits<<unused) >> unused)
	}
	return float64(bits)
}

// encode handles zero and finite values in the normal range, which include all inputs and their reductions.
func (f floating) encode(v float64) uint64 {
	var sign uint64
	if math.Signbit(v) {
		sign = 1 << (f.exp + f.frac)
		v = -v
	}
	if v == 0 {
		return sign
	}
	e := math.Ilogb(v)
	m := uint64(math.RoundToEven(math.Ldexp(v, f.frac-e)))
	if m>>(f.frac+1) != 0 {
		m, e = m>>1, e+1
	}
	return sign | uint64(e+f.bias)<<f.frac | m&(1<<f.frac-1)
}

func (f floating) decode(bits uint64) float64 {
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
	f := floats[t]
	e := 1 - f.bias
	if v != 0 {
		e = max(e, math.Ilogb(v))
	}
	return math.Ldexp(1, e-f.frac)
}

// exact is the largest n, or 2³⁰, such that every integer in 0..n is an element of t.
func exact(t datatype.Type) int64 {
	if f, ok := floats[t]; ok {
		return 1 << min(f.frac+1, 30)
	}
	switch t {
	case datatype.Int8:
		return 127
	case datatype.Uint8:
		return 255
	}
	return 1 << 30
}
