package shm

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// Every destination gets the source, for all sizes and alignments, and no byte around it changes.
func TestSpread(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		src := make([]byte, rng.IntN(1500))
		for i := range src {
			src[i] = byte(1 + rng.IntN(255))
		}
		off := rng.IntN(300)
		bufs := make([][]byte, rng.IntN(10))
		dsts := make([]device.Ptr, len(bufs))
		at := make([]int, len(bufs))
		for i := range bufs {
			bufs[i] = make([]byte, 64+off+len(src)+64)
			at[i] = rng.IntN(64)
			dsts[i] = device.Ptr(uintptr(unsafe.Pointer(&bufs[i][at[i]])))
		}
		spread(dsts, int64(off), src)
		for i, b := range bufs {
			want := make([]byte, len(b))
			copy(want[at[i]+off:], src)
			if !bytes.Equal(b, want) {
				t.Fatalf("destination %d of %d, %d bytes to offset %d of an address that is %d modulo 64: they differ",
					i, len(bufs), len(src), off, dsts[i]%64)
			}
		}
	}
}

// There is a piece for each rank as long as each can have a cache line; no element is split.
func TestPieceOf(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 10000 {
		n, ranks := 1+rng.Int64N(1<<(1+rng.IntN(32))), 1+rng.IntN(64)
		size := pieceOf(n, ranks)
		if size <= 0 || size > checkEvery || size%64 != 0 || size%datatype.Float64.Size() != 0 {
			t.Fatalf("%d bytes, %d ranks: pieces of %d bytes", n, ranks, size)
		}
		if n%(64*int64(ranks)) == 0 && (n+size-1)/size < int64(ranks) {
			t.Fatalf("%d bytes, %d ranks: pieces of %d bytes are too few for all", n, ranks, size)
		}
	}
}
