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
var aliases = map[string]Type{"char": Int8, "i8": Int8, "u8": Uint8, "byte": Uint8, "int": Int32, "i32": Int32,
	"u32": Uint32, "i64": Int64, "u64": Uint64, "float16": Float16, "fp16": Float16, "f16": Float16, "float32": Float32,
	"fp32": Float32, "f32": Float32, "float64": Float64, "fp64": Float64, "f64": Float64, "bf16": Bfloat16,
	"fp8_e4m3": Float8E4M3, "e4m3": Float8E4M3, "float8_e4m3": Float8E4M3, "fp8_e5m2": Float8E5M2, "e5m2": Float8E5M2,
	"float8_e5m2": Float8E5M2}
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
	if t, ok := aliases[s]; ok {
		return t, nil
	}
	return 0, fmt.Errorf("datatype: unknown element type %q: use one of %s", s, strings.Join(typeNames[:], ", "))
}
