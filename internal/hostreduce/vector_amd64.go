package hostreduce

import (
	"math"
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/goccl/goccl/datatype"
)

// kernel reduces nsrc sources into dst; see vector_amd64.h.
type kernel func(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)

func sumFloat32(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func sumFloat64(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func preMulSumFloat32(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func preMulSumFloat64(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func prodFloat32(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func prodFloat64(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func sumInt8(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func sumInt32(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func sumInt64(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func prodInt32(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func maxInt8(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func minInt8(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func maxUint8(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func minUint8(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func maxInt32(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func minInt32(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func maxUint32(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func minUint32(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func maxFloat32(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func minFloat32(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func maxFloat64(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func minFloat64(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func sumBfloat16(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func prodBfloat16(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func preMulSumBfloat16(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func maxBfloat16(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func minBfloat16(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func sumFloat16(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func prodFloat16(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func preMulSumFloat16(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func maxFloat16(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func minFloat16(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)

// vectorKernel is a kernel and its block size: the number of bytes must be a multiple of it.
type vectorKernel struct {
	run   kernel
	block int
}

// vectorKernels is empty if the processor lacks a required instruction.
var vectorKernels [datatype.NumTypes][datatype.NumOps]vectorKernel

func init() {
	if !cpu.X86.HasAVX2 {
		return
	}
	set := func(t datatype.Type, block int, byOp map[datatype.Op]kernel) {
		for op, k := range byOp {
			vectorKernels[t][op] = vectorKernel{k, block}
		}
	}
	const s, p, x, n, a, m = datatype.Sum, datatype.Prod, datatype.Max, datatype.Min, datatype.Avg, datatype.PreMulSum
	type ops = map[datatype.Op]kernel
	set(datatype.Int8, 32, ops{s: sumInt8, a: sumInt8, x: maxInt8, n: minInt8})
	set(datatype.Uint8, 32, ops{s: sumInt8, a: sumInt8, x: maxUint8, n: minUint8})
	set(datatype.Int32, 32, ops{s: sumInt32, a: sumInt32, p: prodInt32, x: maxInt32, n: minInt32})
	set(datatype.Uint32, 32, ops{s: sumInt32, a: sumInt32, p: prodInt32, x: maxUint32, n: minUint32})
	set(datatype.Int64, 32, ops{s: sumInt64, a: sumInt64})
	set(datatype.Uint64, 32, ops{s: sumInt64, a: sumInt64})
	set(datatype.Float32, 32, ops{s: sumFloat32, a: sumFloat32, p: prodFloat32, m: preMulSumFloat32})
	set(datatype.Float32, 32, ops{x: maxFloat32, n: minFloat32})
	set(datatype.Float64, 32, ops{s: sumFloat64, a: sumFloat64, p: prodFloat64, m: preMulSumFloat64})
	set(datatype.Float64, 32, ops{x: maxFloat64, n: minFloat64})
	set(datatype.Bfloat16, 16, ops{s: sumBfloat16, a: sumBfloat16, p: prodBfloat16, x: maxBfloat16, n: minBfloat16,
		m: preMulSumBfloat16})
	if !cpu.X86.HasF16C {
		return
	}
	set(datatype.Float16, 16, ops{s: sumFloat16, a: sumFloat16, p: prodFloat16, x: maxFloat16, n: minFloat16,
		m: preMulSumFloat16})
}

// reduceVector reduces all whole blocks and returns their size in bytes.
func reduceVector(dst []byte, srcs [][]byte, r reduction) int {
	k := vectorKernels[r.t][r.op]
	if k.run == nil || len(dst) < k.block {
		return 0
	}
	n := len(dst) - len(dst)%k.block
	k.run(unsafe.SliceData(dst), unsafe.SliceData(srcs), len(srcs), n, scaleBits(r))
	if r.op == datatype.Avg && !isFloat(r.t) {
		divide(dst[:n], r.t, r.nranks)
	}
	return n
}

// divide is the last step of Avg on a buffer of summed integers.
func divide(dst []byte, t datatype.Type, nranks int) {
	switch t {
	case datatype.Int8:
		divideInt(elems[int8](dst, 0, len(dst)), nranks)
	case datatype.Uint8:
		divideInt(elems[uint8](dst, 0, len(dst)), nranks)
	case datatype.Int32:
		divideInt(elems[int32](dst, 0, len(dst)/4), nranks)
	case datatype.Uint32:
		divideInt(elems[uint32](dst, 0, len(dst)/4), nranks)
	case datatype.Int64:
		divideInt(elems[int64](dst, 0, len(dst)/8), nranks)
	case datatype.Uint64:
		divideInt(elems[uint64](dst, 0, len(dst)/8), nranks)
	}
}

// scaleBits returns the factor of the kernels that have one, 1 for operators without one: a float64 for float64, a
// float32 for the other floats.
func scaleBits(r reduction) uint64 {
	if r.t == datatype.Float64 {
		switch r.op {
		case datatype.Avg:
			return math.Float64bits(1 / float64(r.nranks))
		case datatype.PreMulSum:
			return scalarOf[uint64](r.scalar)
		}
		return math.Float64bits(1)
	}
	f := float32(1)
	switch r.op {
	case datatype.Avg:
		f = 1 / float32(r.nranks)
	case datatype.PreMulSum:
		if isFloat(r.t) {
			f = float32(floatAt(r.scalar[:], 0, r.t))
		}
	}
	return uint64(math.Float32bits(f))
}
