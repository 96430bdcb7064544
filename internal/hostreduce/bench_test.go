package hostreduce

import (
	"fmt"
	"testing"

	"github.com/goccl/goccl/datatype"
)

// BenchmarkKernels prints the table of doc.go: 8 sources of 16 KiB, by the vector kernels and by plain Go.
func BenchmarkKernels(b *testing.B) {
	b.Run("vector", benchmarkKernels)
	defer withoutVectors()()
	b.Run("plain", benchmarkKernels)
}

func benchmarkKernels(b *testing.B) {
	for _, op := range []datatype.Op{datatype.Sum, datatype.Max, datatype.Prod, datatype.PreMulSum} {
		for t := range datatype.NumTypes {
			b.Run(fmt.Sprintf("%v/%v", op, t), func(b *testing.B) { benchmarkReduce(b, t, op, 8, 16<<10) })
		}
	}
}

// BenchmarkReduce reports bytes of input per second: 8 sources, in chunks that fit together in the second-level cache
// (64 KiB) or do not (8 MiB).
func BenchmarkReduce(b *testing.B) {
	for _, c := range []struct {
		t    datatype.Type
		op   datatype.Op
		k    int
		size int
	}{
		{datatype.Float32, datatype.Sum, 8, 8},
		{datatype.Float32, datatype.Sum, 8, 64 << 10},
		{datatype.Float32, datatype.Sum, 2, 64 << 10},
		{datatype.Float32, datatype.Sum, 8, 8 << 20},
		{datatype.Float32, datatype.Max, 8, 64 << 10},
		{datatype.Float64, datatype.Sum, 8, 64 << 10},
		{datatype.Int32, datatype.Sum, 8, 64 << 10},
		{datatype.Int64, datatype.Min, 8, 64 << 10},
		{datatype.Int64, datatype.Avg, 8, 64 << 10},
		{datatype.Bfloat16, datatype.Sum, 8, 64 << 10},
		{datatype.Float16, datatype.Sum, 8, 64 << 10},
		{datatype.Float8E4M3, datatype.Sum, 8, 64 << 10},
		{datatype.Float8E5M2, datatype.Max, 8, 64 << 10},
		{datatype.Int64, datatype.Prod, 8, 64 << 10},
		{datatype.Float32, datatype.Prod, 8, 64 << 10},
	} {
		b.Run(fmt.Sprintf("%v/%v/%d×%d", c.t, c.op, c.k, c.size), func(b *testing.B) {
			benchmarkReduce(b, c.t, c.op, c.k, c.size)
		})
	}
}

func benchmarkReduce(b *testing.B, t datatype.Type, op datatype.Op, k, size int) {
	srcs := make([][]byte, k)
	for r := range srcs {
		srcs[r] = make([]byte, size)
		Fill(srcs[r], t, 1, r)
	}
	dst, factor := make([]byte, size), ScalarOf(t, 2)
	b.SetBytes(int64(k * size))
	b.ResetTimer()
	for range b.N {
		_ = Reduce(dst, srcs, t, op, factor, k)
	}
}

// BenchmarkReduceToAll is a large all-reduce's work on one core: each chunk is reduced from 8 sources and copied back
// to all of them. Bytes are counted for one rank. (Non-temporal copies were tried here and are slower, in place by a
// third.)
func BenchmarkReduceToAll(b *testing.B) {
	const ranks, size, chunk = 8, 16 << 20, 32 << 10
	var bufs [ranks][]byte
	for r := range ranks {
		bufs[r] = make([]byte, size)
		Fill(bufs[r], datatype.Float32, 1, r)
	}
	scratch := make([]byte, chunk)
	b.SetBytes(size)
	for b.Loop() {
		for off := 0; off < size; off += chunk {
			var part [ranks][]byte
			for r := range ranks {
				part[r] = bufs[r][off : off+chunk]
			}
			if err := Reduce(scratch, part[:], datatype.Float32, datatype.Avg, [8]byte{}, ranks); err != nil {
				b.Fatal(err)
			}
			for r := range ranks {
				copy(part[r], scratch)
			}
		}
	}
}
