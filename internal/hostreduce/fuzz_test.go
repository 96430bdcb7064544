package hostreduce

import (
	"bytes"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/test/mutate"
)

// FuzzReduce compares the vector kernels with plain Go on any bits, any count and any alignment.
func FuzzReduce(f *testing.F) {
	for t := range datatype.NumTypes {
		for op := range datatype.NumOps {
			f.Add(uint8(t), uint8(op), uint8(3), uint8(1), bytes.Repeat([]byte("0123456789abcdefghijklmnopqrstuvwxyz"), 2))
		}
	}
	mutate.Fuzz(f, func(t *testing.T, dt, o, sources, shift uint8, data []byte) {
		typ, op := datatype.Type(dt)%datatype.NumTypes, datatype.Op(o)%datatype.NumOps
		k, size := 1+int(sources%9), int(typ.Size())
		data = data[min(len(data), int(shift%8)):]
		n := len(data) / k / size * size
		if n == 0 {
			return
		}
		srcs := make([][]byte, k)
		for j := range srcs {
			srcs[j] = data[j*n : (j+1)*n]
		}
		scalar := ScalarOf(typ, 3)
		got, want := make([]byte, n+1)[1:], make([]byte, n)
		if err := Reduce(got, srcs, typ, op, scalar, k); err != nil {
			t.Fatal(err)
		}
		if k == 1 && op != datatype.Avg && op != datatype.PreMulSum {
			copy(want, srcs[0])
		} else {
			generic[typ](want, srcs, 0, reduction{typ, op, scalar, k})
		}
		for i := 0; op == datatype.Avg && overflows(typ) && i < n/size; i++ {
			if f := FloatAt(want, i, typ); f-f != 0 {
				copy(want[i*size:(i+1)*size], naive(srcs, i, typ, op, scalar, k))
			}
		}
		if i := sameElements(got, want, typ); i >= 0 {
			t.Fatalf("%v %v, %d sources of %d bytes: element %d is %x, plain Go makes it %x", typ, op, k, n, i,
				got[i*size:(i+1)*size], want[i*size:(i+1)*size])
		}
	})
}

// BenchmarkFill measures the generation of test data; the second half of the time is a copy.
func BenchmarkFill(b *testing.B) {
	buf := make([]byte, 1<<20)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		Fill(buf, datatype.Float32, 1, 3)
	}
}
