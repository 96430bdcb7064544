package fused

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"testing"
	"unsafe"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/test/testutil"
)

// header mirrors struct Header of emulate.cpp.
type header struct {
	ranks, tokens, hidden, typ, algorithm, divided, residual, weight, quantisation, quantType, stage, blocks uint32
	epsilon, scale                                                                                           float32
}

type results struct{ sum, residual, norm, quant, scales []byte }

func ptr(b []byte) device.Ptr { return device.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// aligned makes n bytes at a multiple of 16.
func aligned(n int64) []byte {
	b := make([]byte, n+16)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 15
	return b[skip : skip+uintptr(n)]
}

func random(r *rand.Rand, t datatype.Type, n int64) []byte {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	b := aligned(n * t.Size())
	hostreduce.Encode(b, v, t)
	return b
}

// expect runs the reference: the sums of the host device, and the epilogue.
func expect(h *header, inputs [][]byte, residual, weight []byte) results {
	t := datatype.Type(h.typ)
	n := int64(h.tokens) * int64(h.hidden)
	out := results{aligned(n * t.Size()), aligned(n * t.Size()), aligned(n * t.Size()), aligned(n),
		aligned(4 * int64(h.tokens))}
	if err := hostreduce.Reduce(out.sum, inputs, t, datatype.Sum, [8]byte{}, len(inputs)); err != nil {
		panic(err)
	}
	scale := aligned(4)
	binary.NativeEndian.PutUint32(scale, math.Float32bits(h.scale))
	r := Request{Tokens: int64(h.tokens), Hidden: int64(h.hidden), Type: t, Sum: ptr(out.sum),
		ResidualOut: ptr(out.residual), Epsilon: h.epsilon, Norm: ptr(out.norm), Quantisation: Quantisation(h.quantisation),
		QuantType: datatype.Type(h.quantType), Quant: ptr(out.quant), Scale: ptr(scale), ScaleOut: ptr(out.scales)}
	if h.residual != 0 {
		r.Residual = ptr(residual)
	}
	if h.weight != 0 {
		r.Weight = ptr(weight)
	}
	r.epilogue(whole, r.Sum, 0, r.Tokens)
	return out
}

func draw(r *rand.Rand) header {
	h := header{ranks: 1 + r.Uint32N(5), tokens: 1 + r.Uint32N(6), hidden: 8 * (1 + r.Uint32N(90)),
		typ: []uint32{6, 7, 9}[r.IntN(3)], algorithm: 1 + r.Uint32N(2), residual: r.Uint32N(2), weight: r.Uint32N(2),
		quantisation: r.Uint32N(3), quantType: []uint32{0, 10}[r.IntN(2)], stage: 3, blocks: 1 + r.Uint32N(3),
		epsilon: 1e-5, scale: 0.02}
	if r.IntN(6) == 0 { // several groups a thread
		h.tokens, h.hidden, h.ranks, h.blocks = 1, 8*(513+r.Uint32N(1536)), 2, 1
	}
	if h.algorithm == 2 {
		h.divided = r.Uint32N(2)
	}
	return h
}

// The kernels, on CPU threads, have the bits of the reference, on all ranks.
func TestKernelsAgreeWithTheReference(t *testing.T) {
	program := testutil.Emulator(t, "fused")
	for range 16 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 3))
		h := draw(r)
		typ, n := datatype.Type(h.typ), int64(h.tokens)*int64(h.hidden)
		var inputs [][]byte
		in := bytes.NewBuffer(bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h))))
		for range h.ranks {
			inputs = append(inputs, random(r, typ, n))
		}
		residual, weight := random(r, typ, n), random(r, typ, int64(h.hidden))
		for _, b := range append(inputs[:len(inputs):len(inputs)], residual, weight) {
			in.Write(b)
		}
		cmd := exec.Command(program)
		cmd.Stdin = in
		got, err := cmd.Output()
		if err != nil {
			t.Fatalf("seed %d, %+v: %v", seed, h, err)
		}
		want := expect(&h, inputs, residual, weight)
		for rank := range int(h.ranks) {
			got, err = compare(&h, rank, got, &want)
			if err != nil {
				t.Fatalf("seed %d, %+v: rank %d: %v", seed, h, rank, err)
			}
		}
		if len(got) != 0 {
			t.Fatalf("%d bytes too many", len(got))
		}
	}
}

// compare takes the results of a rank off got.
func compare(h *header, rank int, got []byte, want *results) ([]byte, error) {
	r := Request{Tokens: int64(h.tokens), Hidden: int64(h.hidden), Type: datatype.Type(h.typ)}
	from, to := int64(0), r.Tokens
	if h.divided != 0 {
		from, to = r.Slice(rank, int(h.ranks))
	}
	for _, x := range []struct {
		name     string
		want     []byte
		from, to int64
		skip     bool
	}{
		{"sum", want.sum, from * r.RowBytes(), to * r.RowBytes(), false},
		{"residual", want.residual, from * r.RowBytes(), to * r.RowBytes(), false},
		{"norm", want.norm, 0, r.Bytes(), false},
		{"quantised output", want.quant, 0, r.Tokens * r.Hidden, h.quantisation == 0},
		{"scales", want.scales, 0, 4 * r.Tokens, h.quantisation != 2},
	} {
		mine := got[:len(x.want)]
		got = got[len(x.want):]
		for i := x.from; i < x.to && !x.skip; i++ {
			if mine[i] != x.want[i] {
				return nil, fmt.Errorf("%s: byte %d is %#x: want %#x", x.name, i, mine[i], x.want[i])
			}
		}
	}
	return got, nil
}
