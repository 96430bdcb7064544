package hostreduce

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl/datatype"
)

// naive is Reduce for one element, in the simplest form.
func naive(srcs [][]byte, i int, t datatype.Type, op datatype.Op, scalar [8]byte, nranks int) []byte {
	size := int(t.Size())
	out := make([]byte, size)
	at := func(b []byte) []byte { return b[i*size : (i+1)*size] }
	if !isFloat(t) {
		signed := t == datatype.Int8 || t == datatype.Int32 || t == datatype.Int64
		read := func(b []byte) (v uint64) { // sign- or zero-extended to 64 bits
			for k := size - 1; k >= 0; k-- {
				v = v<<8 | uint64(b[k])
			}
			if shift := 64 - 8*size; signed {
				v = uint64(int64(v<<shift) >> shift)
			}
			return v
		}
		cut := func(v uint64) uint64 {
			var b [8]byte
			for k := range b {
				b[k] = byte(v >> (8 * k))
			}
			return read(b[:size])
		}
		acc := read(at(srcs[0]))
		if op == datatype.PreMulSum {
			acc = cut(acc * read(scalar[:]))
		}
		for _, s := range srcs[1:] {
			x := read(at(s))
			less := x < acc
			if signed {
				less = int64(x) < int64(acc)
			}
			switch op {
			case datatype.Sum, datatype.Avg:
				acc += x
			case datatype.Prod:
				acc *= x
			case datatype.PreMulSum:
				acc += x * read(scalar[:])
			case datatype.Max:
				if !less {
					acc = x
				}
			case datatype.Min:
				if less {
					acc = x
				}
			}
			acc = cut(acc)
		}
		if op == datatype.Avg {
			if signed {
				acc = uint64(int64(acc) / int64(nranks))
			} else {
				acc /= uint64(nranks)
			}
		}
		for k := range out {
			out[k] = byte(acc >> (8 * k))
		}
		return out
	}
	if len(srcs) == 1 && op != datatype.Avg && op != datatype.PreMulSum {
		return at(srcs[0])
	}
	// Float64 arithmetic on float32 operands, rounded to float32 after each step, gives the results of float32
	// arithmetic.
	round := func(v float64) float64 {
		if t != datatype.Float64 {
			return float64(float32(v))
		}
		return v
	}
	acc := FloatAt(at(srcs[0]), 0, t)
	choice := at(srcs[0])
	factor := FloatAt(scalar[:], 0, t)
	if op == datatype.PreMulSum {
		acc = round(acc * factor)
	}
	for _, s := range srcs[1:] {
		x := FloatAt(at(s), 0, t)
		switch op {
		case datatype.Sum, datatype.Avg:
			acc = round(acc + x)
		case datatype.Prod:
			acc = round(acc * x)
		case datatype.PreMulSum:
			p := round(x * factor)
			acc = round(acc + p)
		case datatype.Max, datatype.Min:
			greater := x > acc || x == acc && math.Signbit(acc) && !math.Signbit(x)
			less := x < acc || x == acc && math.Signbit(x) && !math.Signbit(acc)
			if math.IsNaN(acc) && !math.IsNaN(x) || op == datatype.Max && greater || op == datatype.Min && less {
				acc, choice = x, at(s)
			}
		}
	}
	switch op {
	case datatype.Max, datatype.Min:
		return choice
	case datatype.Avg:
		if acc-acc != 0 && overflows(t) {
			half := math.Ceil(math.Log2(float64(nranks)))
			acc = round(math.Ldexp(FloatAt(at(srcs[0]), 0, t), -int(half)))
			for _, s := range srcs[1:] {
				acc = round(acc + round(math.Ldexp(FloatAt(at(s), 0, t), -int(half))))
			}
			if avg := round(acc * math.Ldexp(round(1/float64(nranks)), int(half))); avg-avg == 0 || acc-acc != 0 {
				acc = avg
			} else {
				acc = math.Copysign(largest(t), acc)
			}
			break
		}
		acc = round(acc * round(1/float64(nranks)))
	}
	s := ScalarOf(t, acc)
	return s[:size]
}

// sameElements compares bit by bit, any NaN being any NaN, and returns the first difference or -1.
func sameElements(a, b []byte, t datatype.Type) int {
	size := int(t.Size())
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range len(a) / size {
		if x, y := a[i*size:(i+1)*size], b[i*size:(i+1)*size]; !bytes.Equal(x, y) {
			if isFloat(t) && math.IsNaN(FloatAt(x, 0, t)) && math.IsNaN(FloatAt(y, 0, t)) {
				continue
			}
			return i
		}
	}
	return -1
}

// randomBits includes, for floats, every kind of number: subnormal, infinite, NaN.
func randomBits(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	for i := 0; i+8 <= len(b); i += 8 * (1 + r.IntN(16)) { // zeros of both signs, and equal elements
		clear(b[i : i+8])
		b[i+7], b[i+3], b[i+1] = byte(r.IntN(2)<<7), byte(r.IntN(2)<<7), byte(r.IntN(2)<<7)
	}
}

func everyTypeAndOp(t *testing.T, f func(t *testing.T, dt datatype.Type, op datatype.Op)) {
	for dt := range datatype.NumTypes {
		for op := range datatype.NumOps {
			t.Run(fmt.Sprintf("%v/%v", dt, op), func(t *testing.T) { f(t, dt, op) })
		}
	}
}

func TestReduceAgainstNaive(t *testing.T) {
	t.Run("vector", reduceAgainstNaive)
	defer withoutVectors()()
	t.Run("plain Go", reduceAgainstNaive)
}

func reduceAgainstNaive(t *testing.T) {
	everyTypeAndOp(t, func(t *testing.T, dt datatype.Type, op datatype.Op) {
		r := rand.New(rand.NewPCG(uint64(dt), uint64(op)))
		size := int(dt.Size())
		for _, count := range []int{0, 1, 2, 7, 8, 9, 31, 33, 64, 127, 513} {
			for _, k := range []int{1, 2, 3, 8} {
				shift := r.IntN(9) // unaligned, each source differently
				scalar := ScalarOf(dt, 3)
				srcs := make([][]byte, k)
				for j := range srcs {
					b := make([]byte, count*size+shift+j)
					randomBits(r, b)
					srcs[j] = b[shift+j:]
				}
				want := make([]byte, 0, count*size)
				for i := range count {
					want = append(want, naive(srcs, i, dt, op, scalar, k)...)
				}
				for _, dstIs := range []int{-1, 0, k - 1} {
					dst := make([]byte, count*size+2)[1 : 1+count*size]
					in := srcs
					if dstIs >= 0 {
						in = append([][]byte(nil), srcs...)
						in[dstIs] = append([]byte(nil), srcs[dstIs]...)
						dst = in[dstIs]
					}
					if err := Reduce(dst, in, dt, op, scalar, k); err != nil {
						t.Fatal(err)
					}
					if i := sameElements(dst, want, dt); i >= 0 {
						t.Fatalf("%d sources, %d elements, dst is source %d: element %d is %x, want %x", k, count, dstIs, i,
							dst[i*size:(i+1)*size], want[i*size:(i+1)*size])
					}
				}
			}
		}
	})
}

func TestReduceRefusesBadArguments(t *testing.T) {
	b := make([]byte, 64)
	other := make([]byte, 64)
	for name, err := range map[string]error{
		"type":     Reduce(b, [][]byte{other}, datatype.NumTypes, 0, [8]byte{}, 1),
		"op":       Reduce(b, [][]byte{other}, 0, datatype.NumOps, [8]byte{}, 1),
		"none":     Reduce(b, nil, 0, 0, [8]byte{}, 1),
		"length":   Reduce(b, [][]byte{other[1:]}, 0, 0, [8]byte{}, 1),
		"multiple": Reduce(b[:63], [][]byte{other[:63]}, datatype.Int32, 0, [8]byte{}, 1),
		"ranks":    Reduce(b, [][]byte{other}, 0, datatype.Avg, [8]byte{}, 0),
		"overlap":  Reduce(b[:32], [][]byte{other[:32], b[4:36]}, 0, 0, [8]byte{}, 1),
	} {
		if !errors.Is(err, ErrArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The data of Fill must reveal every single mistake, and Check must accept a correct result.
func TestFillAndCheck(t *testing.T) {
	const n, count = 8, 500
	everyTypeAndOp(t, func(t *testing.T, dt datatype.Type, op datatype.Op) {
		size := int(dt.Size())
		scalar := ScalarOf(dt, 2)
		want := make([]byte, count*size)
		srcs := make([][]byte, n)
		for r := range srcs {
			srcs[r] = make([]byte, len(want))
			FillAt(srcs[r], dt, 1, r, 7)
		}
		if err := Reduce(want, srcs, dt, op, scalar, n); err != nil {
			t.Fatal(err)
		}
		for r := range srcs {
			b := make([]byte, (count+7)*size)
			Fill(b, dt, 1, r)
			srcs[r] = b[7*size:]
		}
		got := make([]byte, count*size)
		// Another order, rounded after each step, as a ring does it.
		if op == datatype.Sum || op == datatype.Prod || op == datatype.Max || op == datatype.Min {
			copy(got, srcs[5])
			for i := 1; i < n; i++ {
				if err := Reduce(got, [][]byte{got, srcs[(5+i)%n]}, dt, op, scalar, n); err != nil {
					t.Fatal(err)
				}
			}
		} else if err := Reduce(got, srcs, dt, op, scalar, n); err != nil {
			t.Fatal(err)
		}
		if wrong, first := Check(got, want, dt, op, n); wrong != 0 || first != -1 {
			t.Fatalf("right result: %d wrong, first %d", wrong, first)
		}
		for i := range count {
			if v := floatAtAny(want, i, dt); math.IsInf(v, 0) || math.IsNaN(v) {
				t.Fatalf("element %d is %v", i, v)
			}
		}
		// One rank left out. An 8-bit float with a tolerance of half its value cannot detect it, nor can an extremum
		// for most elements.
		if op != datatype.Max && op != datatype.Min && size > 1 {
			left := append([][]byte(nil), srcs...)
			left[3] = srcs[2]
			_ = Reduce(got, left, dt, op, scalar, n)
			if wrong, _ := Check(got, want, dt, op, n); wrong < count/2 {
				t.Errorf("rank 3's data replaced by rank 2's: only %d of %d elements noticed", wrong, count)
			}
		}
		copy(got, want)
		got[(count-1)*size+size-1] ^= 0x40
		if isFloat(dt) && size == 1 {
			got[count-1] = 0x7b // the largest number, or near
		}
		if wrong, first := Check(got, want, dt, op, n); wrong != 1 || first != count-1 {
			t.Errorf("one flipped bit: %d wrong, first %d", wrong, first)
		}
		if wrong, first := Check(want[:size], want, dt, op, n); wrong != count-1 || first != 1 {
			t.Errorf("short result: %d wrong, first %d", wrong, first)
		}
	})
}

func floatAtAny(b []byte, i int, t datatype.Type) float64 {
	if !isFloat(t) {
		return 0
	}
	return FloatAt(b, i, t)
}
