package hostreduce

import (
	"math"
	"slices"
	"testing"
)

// format is a small float format by its definition, for the reference implementation of the conversions.
type format struct {
	name               string
	bits, expBits, man int
	infinity           bool // the top exponent is infinity and NaN; otherwise only all ones is NaN
	saturate           bool
	decode             func(uint16) float32
	encode             func(float32) uint16
}

var formats = []format{
	{"float16", 16, 5, 10, true, false, float16ToFloat32, float32ToFloat16},
	{"bfloat16", 16, 8, 7, true, false, bfloat16ToFloat32, float32ToBfloat16},
	{"e4m3", 8, 4, 3, false, true, func(x uint16) float32 { return e4m3ToFloat32[x] },
		func(f float32) uint16 { return uint16(float32ToE4M3(f)) }},
	{"e5m2", 8, 5, 2, true, true, func(x uint16) float32 { return e5m2ToFloat32[x] },
		func(f float32) uint16 { return uint16(float32ToE5M2(f)) }},
}

// value decodes an encoding, directly from the definition.
func (f format) value(x uint16) float64 {
	frac := float64(int(x) & (1<<f.man - 1))
	exp := int(x) >> f.man & (1<<f.expBits - 1)
	sign := 1 - 2*float64(x>>(f.bits-1))
	bias := 1<<(f.expBits-1) - 1
	top := exp == 1<<f.expBits-1
	switch {
	case top && f.infinity && frac == 0:
		return math.Inf(int(sign))
	case top && (f.infinity || frac == float64(int(1)<<f.man-1)):
		return math.NaN()
	case exp == 0:
		return sign * math.Ldexp(frac, 1-bias-f.man)
	}
	return sign * math.Ldexp(1+frac/float64(int(1)<<f.man), exp-bias)
}

func TestDecodeEveryValue(t *testing.T) {
	for _, f := range formats {
		for x := range 1 << f.bits {
			got, want := float64(f.decode(uint16(x))), f.value(uint16(x))
			if math.Float64bits(got) != math.Float64bits(want) && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Fatalf("%s %#x: decoded %v, is %v", f.name, x, got, want)
			}
		}
	}
}

func TestEncodeIsTheInverse(t *testing.T) {
	for _, f := range formats {
		for x := range 1 << f.bits {
			v := f.decode(uint16(x))
			got := f.encode(v)
			switch {
			case v != v:
				if w := f.decode(got); w == w {
					t.Fatalf("%s: NaN %#x became %v", f.name, x, w)
				}
			case math.IsInf(float64(v), 0) && f.saturate:
				if want := uint16(x) - 1; got != want { // the largest finite number precedes infinity
					t.Fatalf("%s: infinity became %#x, want %#x", f.name, got, want)
				}
			case got != uint16(x):
				t.Fatalf("%s: %v from %#x became %#x", f.name, v, x, got)
			}
		}
	}
}

// Between two neighbours the rounding changes at the middle, which rounds to the even one.
func TestEncodeRoundsToNearestEven(t *testing.T) {
	for _, f := range formats {
		var finite []uint16 // non-negative, ascending
		for x := range 1 << (f.bits - 1) {
			if v := f.value(uint16(x)); !math.IsNaN(v) && !math.IsInf(v, 0) {
				finite = append(finite, uint16(x))
			}
		}
		slices.Sort(finite)
		signBit := uint16(1) << (f.bits - 1)
		check := func(v float64, want uint16) {
			t.Helper()
			if float64(float32(v)) != v {
				t.Fatalf("%s: %v is no float32, the test is wrong", f.name, v)
			}
			if got := f.encode(float32(v)); got != want {
				t.Fatalf("%s: %v rounded to %#x, want %#x", f.name, v, got, want)
			}
			if got := f.encode(float32(-v)); got != want|signBit {
				t.Fatalf("%s: %v rounded to %#x, want %#x", f.name, -v, got, want|signBit)
			}
		}
		for i, lo := range finite[:len(finite)-1] {
			hi := finite[i+1]
			mid := (f.value(lo) + f.value(hi)) / 2
			if float64(float32(mid)) != mid {
				continue // no float32 lies between these subnormals of bfloat16
			}
			even := lo
			if lo&1 != 0 {
				even = hi
			}
			check(mid, even)
			check(float64(math.Nextafter32(float32(mid), 0)), lo)
			check(float64(math.Nextafter32(float32(mid), math.MaxFloat32)), hi)
		}
		last := finite[len(finite)-1]
		if f.saturate {
			for _, v := range []float64{1.01 * f.value(last), 1e10, math.MaxFloat32} {
				check(float64(float32(v)), last)
			}
			continue
		}
		beyond := f.value(last) + (f.value(last)-f.value(finite[len(finite)-2]))/2
		if float64(float32(beyond)) == beyond {
			check(beyond, last+1)
			check(float64(math.Nextafter32(float32(beyond), 0)), last)
		}
	}
}
