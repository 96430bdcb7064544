package hostreduce

import (
	"math"

	"github.com/goccl/goccl/datatype"
)

// The two 8-bit formats. E4M3: bias 7, no infinity, NaN is S.1111.111, largest 448. E5M2: bias 15, infinity and NaNs as
// in IEEE 754, largest 57344.
//
// Conversions are table look-ups. Rounding needs the bits of a float32 down to the first that is dropped, and whether
// any bit below is set: they are the index.
var (
	e4m3ToFloat32, e5m2ToFloat32 [256]float32
	float32ToE4M3Table           [1 << (32 - e4m3Below + 1)]uint8
	float32ToE5M2Table           [1 << (32 - e5m2Below + 1)]uint8
)

// Tables by type; nil for types that are not 8-bit floats. The keys are extremumKey's, for Max and then Min.
var (
	float8Values = [datatype.NumTypes]*[256]float32{
		datatype.Float8E4M3: &e4m3ToFloat32, datatype.Float8E5M2: &e5m2ToFloat32,
	}
	float8Keys = [datatype.NumTypes]*[2][256]uint16{
		datatype.Float8E4M3: new([2][256]uint16), datatype.Float8E5M2: new([2][256]uint16),
	}
	greatestEncoding = [datatype.NumTypes]uint16{
		datatype.Float16: 0x7c00, datatype.Bfloat16: 0x7f80, datatype.Float8E4M3: 0x7e00, datatype.Float8E5M2: 0x7c00,
	}
)

// The number of bits of a float32 below the first that is dropped.
const e4m3Below, e5m2Below = 19, 20

func init() {
	for i := range 256 {
		e4m3ToFloat32[i] = decodeE4M3(uint8(i))
		// E5M2 is the upper half of a float16.
		e5m2ToFloat32[i] = float16ToFloat32(uint16(i) << 8)
	}
	for t, keys := range float8Keys {
		for i := 0; keys != nil && i < 256; i++ {
			x := uint16(i) << 8
			keys[0][i] = extremumKey(x, greatestEncoding[t], 0)
			keys[1][i] = extremumKey(x, greatestEncoding[t], 0xffff)
		}
	}
	for i := range float32ToE4M3Table {
		float32ToE4M3Table[i] = encodeE4M3(math.Float32frombits(uint32(i>>1<<e4m3Below | i&1)))
	}
	for i := range float32ToE5M2Table {
		float32ToE5M2Table[i] = encodeE5M2(math.Float32frombits(uint32(i>>1<<e5m2Below | i&1)))
	}
}

func float32ToE4M3(f float32) uint8 {
	const low = 1<<e4m3Below - 1
	b := math.Float32bits(f)
	return float32ToE4M3Table[b>>e4m3Below<<1|(b&low+low)>>e4m3Below]
}

func float32ToE5M2(f float32) uint8 {
	const low = 1<<e5m2Below - 1
	b := math.Float32bits(f)
	return float32ToE5M2Table[b>>e5m2Below<<1|(b&low+low)>>e5m2Below]
}

func decodeE4M3(x uint8) float32 {
	sign := uint32(x&0x80) << 24
	exp, frac := uint32(x>>3&0xf), uint32(x&7)
	switch {
	case exp == 0xf && frac == 7:
		return math.Float32frombits(sign | 0x7fc00000)
	case exp == 0:
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-9))
	}
	return math.Float32frombits(sign | (exp+127-7)<<23 | frac<<20)
}

// encodeE4M3 rounds to nearest even and saturates at 448; a NaN stays one.
func encodeE4M3(f float32) uint8 {
	b := math.Float32bits(f)
	sign, b := uint8(b>>24&0x80), b&0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7f
	case b >= 0x43e00000: // 448
		return sign | 0x7e
	case b < 0x3c800000: // below 2^-6: adding 2^14 leaves the number of units of 2^-9, rounded, in the lowest bits
		return sign | uint8(math.Float32bits(math.Float32frombits(b)+0x1p14)-0x46800000)
	}
	return sign | uint8((b-(127-7)<<23+0x7ffff+b>>20&1)>>20)
}

// encodeE5M2 rounds to nearest even and saturates at 57344; a NaN stays one.
func encodeE5M2(f float32) uint8 {
	b := math.Float32bits(f)
	sign, b := uint8(b>>24&0x80), b&0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e
	case b >= 0x47600000: // 57344
		return sign | 0x7b
	case b < 0x38800000: // below 2^-14: adding 2^7 leaves the number of units of 2^-16, rounded, in the lowest bits
		return sign | uint8(math.Float32bits(math.Float32frombits(b)+0x1p7)-0x43000000)
	}
	return sign | uint8((b-(127-15)<<23+0xfffff+b>>21&1)>>21)
}
