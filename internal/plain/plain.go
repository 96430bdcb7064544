// Package plain shows structures of numbers as the bytes that they are in memory, for wires and kernels. Such a
// structure has no pointers, and no gaps that are not fields of it. All supported processors are little endian.
package plain

import "unsafe"

// Bytes is the memory of v.
func Bytes[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

// Read returns the structure at the start of b, which is long enough.
func Read[T any](b []byte) (v T) {
	copy(Bytes(&v), b)
	return v
}

// Bit is 1 for true and 0 for false.
func Bit[T int | int32 | uint32 | uint64 | float64 | uint8](b bool) T {
	if b {
		return 1
	}
	return 0
}
