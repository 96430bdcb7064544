package hostreduce

// Bfloat16 rounds f to the nearest bfloat16, ties to even.
func Bfloat16(f float32) uint16 { return float32ToBfloat16(f) }

// Float32 is the value of a bfloat16.
func Float32(bits uint16) float32 { return bfloat16ToFloat32(bits) }

// E4M3 rounds f to the nearest float8e4m3, ties to even; values beyond 448 become 448.
func E4M3(f float32) uint8 { return float32ToE4M3(f) }
