package hostreduce

import (
	"math"
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/goccl/goccl/datatype"
)

// kernel reduces nsrc sources into dst; see vector_amd64.s.
type kernel func(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)

func sumFloat32(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func sumFloat64(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func preMulSumFloat32(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func preMulSumFloat64(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func sumInt8(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func sumInt32(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func sumInt64(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func sumBfloat16(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func preMulSumBfloat16(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func sumFloat16(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
func preMulSumFloat16(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)

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
	const s, a, m = datatype.Sum, datatype.Avg, datatype.PreMulSum
	type ops = map[datatype.Op]kernel
	set(datatype.Int8, 32, ops{s: sumInt8, a: sumInt8})
	set(datatype.Uint8, 32, ops{s: sumInt8, a: sumInt8})
	set(datatype.Int32, 32, ops{s: sumInt32, a: sumInt32})
	set(datatype.Uint32, 32, ops{s: sumInt32, a: sumInt32})
	set(datatype.Int64, 32, ops{s: sumInt64, a: sumInt64})
	set(datatype.Uint64, 32, ops{s: sumInt64, a: sumInt64})
	set(datatype.Float32, 32, ops{s: sumFloat32, a: sumFloat32, m: preMulSumFloat32})
	set(datatype.Float64, 32, ops{s: sumFloat64, a: sumFloat64, m: preMulSumFloat64})
	set(datatype.Bfloat16, 16, ops{s: sumBfloat16, a: sumBfloat16, m: preMulSumBfloat16})
	if cpu.X86.HasF16C {
		set(datatype.Float16, 16, ops{s: sumFloat16, a: sumFloat16, m: preMulSumFloat16})
	}
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
		divide[r.t](dst[:n], r.nranks)
	}
	return n
}

// divide is the last step of Avg on a buffer of summed integers.
var divide = [datatype.NumTypes]func(sums []byte, nranks int){
	datatype.Int8: divideBytes[int8], datatype.Uint8: divideBytes[uint8],
	datatype.Int32: divideBytes[int32], datatype.Uint32: divideBytes[uint32],
	datatype.Int64: divideBytes[int64], datatype.Uint64: divideBytes[uint64],
}

func divideBytes[T integer](sums []byte, nranks int) {
	divideInt(elems[T](sums, 0, len(sums)/int(unsafe.Sizeof(T(0)))), nranks)
}

// scaleBits returns the factor of the kernels that have one, 1 for Sum: a float64 for float64, a float32 for the other
// floats.
func scaleBits(r reduction) uint64 {
	f := 1.0
	switch {
	case r.op == datatype.Avg && r.t == datatype.Float64:
		f = 1 / float64(r.nranks)
	case r.op == datatype.Avg:
		f = float64(1 / float32(r.nranks))
	case r.op == datatype.PreMulSum && isFloat(r.t):
		f = FloatAt(r.scalar[:], 0, r.t)
	}
	if r.t == datatype.Float64 {
		return math.Float64bits(f)
	}
	return uint64(math.Float32bits(float32(f)))
}
