package executor

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/goccl/goccl/internal/wait"
)

// StartAt makes a plan's launches count from n on, as if n launches had run. All ranks must call it.
func StartAt(x *ExecutionPlan, n uint64) {
	h := x.engine.(*hostEngine)
	h.enqueued = n
}

// TestPacketFlags compares the flags with a naive implementation: a set of packets.
func TestPacketFlags(t *testing.T) {
	const size = 4096
	words := make([]uint64, size/lineBytes)
	f := packetFlags{pointerBytes(unsafe.Pointer(&words[0]))}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, epoch := range []uint32{1, 2, math.MaxUint32, 1} {
		var have [size / packetBytes]bool
		if f.here(0, packetBytes, epoch) {
			t.Fatal("packets of another epoch count")
		}
		for range 200 {
			a := rng.Int64N(size / packetBytes)
			n := 1 + rng.Int64N(size/packetBytes-a)
			if rng.IntN(2) == 0 {
				n = min(n, 40)
				f.set(a*packetBytes, n*packetBytes, epoch)
				for i := a; i < a+n; i++ {
					have[i] = true
				}
				continue
			}
			want := true
			for i := a; i < a+n; i++ {
				want = want && have[i]
			}
			if got := f.here(a*packetBytes, n*packetBytes, epoch); got != want {
				t.Fatalf("epoch %d: packets %d to %d: %v, want %v", epoch, a, a+n-1, got, want)
			}
		}
		clear(words) // the epochs repeat here
	}
}

func TestControlArena(t *testing.T) {
	if offInbound%wait.CellSize != 0 || unsafe.Sizeof(record{}) > launchBytes {
		t.Fatalf("inbound at %d, a record has %d bytes", offInbound, unsafe.Sizeof(record{}))
	}
}
