package hostreduce

import "math"

// float16ToFloat32 is exact; a signalling NaN becomes quiet.
func float16ToFloat32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0: // zero and subnormal: frac units of 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-24))
	case 0x1f:
		if frac != 0 {
			frac |= 0x200
		}
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// float32ToFloat16 rounds to nearest even. Values beyond the largest finite number become infinity, a NaN stays one.
func float32ToFloat16(f float32) uint16 {
	b := math.Float32bits(f)
	sign, b := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00 | uint16(b>>13&0x3ff)
	case b >= 0x477ff000: // 65520, half way between the largest number and the next multiple of its spacing
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: adding 0.5 leaves the number of units of 2^-24, rounded, in the lowest bits
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-math.Float32bits(0.5))
	}
	return sign | uint16((b-(127-15)<<23+0xfff+b>>13&1)>>13)
}
