// Package datatype names the element types and the reduction operators that collectives, plans and kernels share.
//
// The numbers equal NCCL's ABI, so that a value crosses the C API unchanged. The package is pure and imports no
// other package of goccl.
package datatype

import (
	"fmt"
	"strings"
)

// Type is an element type. The zero value is Int8, as in NCCL.
type Type uint8

// Element types, numbered as ncclDataType_t.
const (
	Int8 Type = iota
	Uint8
	Int32
	Uint32
	Int64
	Uint64
	Float16
	Float32
	Float64
	Bfloat16
	Float8E4M3
	Float8E5M2
	NumTypes
)

var typeNames = [NumTypes]string{"int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double",
	"bfloat16", "f8e4m3", "f8e5m2"}
var typeSizes = [NumTypes]int64{1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1}

// Valid reports whether t is one of the named types.
func (t Type) Valid() bool { return t < NumTypes }

// Size returns the size of one element in bytes, or 0 if t is not valid.
func (t Type) Size() int64 {
	if !t.Valid() {
		return 0
	}
	return typeSizes[t]
}

// Unsigned reports whether t is an unsigned integer type.
func (t Type) Unsigned() bool { return t == Uint8 || t == Uint32 || t == Uint64 }

// String returns the name that nccl-tests prints.
func (t Type) String() string {
	if !t.Valid() {
		return fmt.Sprintf("Type(%d)", uint8(t))
	}
	return typeNames[t]
}

// ParseType parses nccl-tests' name of a type or a common alias (float32, fp16, bf16, fp8_e4m3, …).
func ParseType(s string) (Type, error) {
	for i, n := range typeNames {
		if n == s {
			return Type(i), nil
		}
	}
	switch s {
	case "char", "i8":
		return Int8, nil
	case "u8", "byte":
		return Uint8, nil
	case "int", "i32":
		return Int32, nil
	case "u32":
		return Uint32, nil
	case "i64":
		return Int64, nil
	case "u64":
		return Uint64, nil
	case "float16", "fp16", "f16":
		return Float16, nil
	case "float32", "fp32", "f32":
		return Float32, nil
	case "float64", "fp64", "f64":
		return Float64, nil
	case "bf16":
		return Bfloat16, nil
	case "fp8_e4m3", "e4m3", "float8_e4m3":
		return Float8E4M3, nil
	case "fp8_e5m2", "e5m2", "float8_e5m2":
		return Float8E5M2, nil
	}
	return 0, fmt.Errorf("datatype: unknown element type %q: use one of %s", s, strings.Join(typeNames[:], ", "))
}
