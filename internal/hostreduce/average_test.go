package hostreduce

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl/datatype"
)

// random fills b with elements of any exponent, or with an exponent near the top.
func random(rng *rand.Rand, b []byte, t datatype.Type, top bool) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.NativeEndian.PutUint64(b[i:], rng.Uint64())
	}
	if !top {
		return
	}
	for i := range len(b) / int(t.Size()) {
		most := largest(t)
		s := ScalarOf(t, math.Copysign(most*(1-rng.Float64()/4), rng.Float64()-0.5))
		if rng.IntN(4) == 0 {
			s = ScalarOf(t, most)
		}
		copy(b[i*int(t.Size()):], s[:t.Size()])
	}
}

// TestAverageIsFinite averages finite elements of any size, those near a type's limit included. Where the sum in rank
// order is finite, the average is that sum times the reciprocal; the exact average else, within rounding.
func TestAverageIsFinite(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, ty := range []datatype.Type{datatype.Float32, datatype.Float64, datatype.Bfloat16, datatype.Float16} {
		size := int(ty.Size())
		for _, n := range []int{2, 3, 4, 5, 7, 8, 64, 100, 1000} {
			for _, count := range []int{1, 5, 129, averagePiece/size + 3} {
				srcs := make([][]byte, n)
				for r := range srcs {
					srcs[r] = make([]byte, (count*size+15)&^7)[:count*size]
					random(rng, srcs[r][:cap(srcs[r])], ty, count != 129)
				}
				got := make([]byte, count*size)
				if n%2 == 1 {
					got = srcs[1]
				}
				want := make([]byte, count*size)
				generic[ty](want, srcs, 0, reduction{t: ty, op: datatype.Avg, nranks: n})
				half := halfAverages(srcs, ty, count)
				if err := Reduce(got, srcs, ty, datatype.Avg, [8]byte{}, n); err != nil {
					t.Fatal(err)
				}
				for i := range count {
					g, w := FloatAt(got, i, ty), FloatAt(want, i, ty)
					switch {
					case w-w == 0 || half[i]-half[i] != 0:
						if math.Float64bits(g) != math.Float64bits(w) && (g-g == 0 || w-w == 0) {
							t.Fatalf("%v, %d ranks: element %d is %g, want %g", ty, n, i, g, w)
						}
					case !(math.Abs(g/2-half[i]) <= largest(ty)*Unit(ty)*float64(n)):
						t.Fatalf("%v, %d ranks: element %d is %g, the average is %g", ty, n, i, g, 2*half[i])
					}
				}
			}
		}
	}
}

// halfAverages returns half of each average: no sum of it is infinite, unless an element is.
func halfAverages(srcs [][]byte, t datatype.Type, count int) []float64 {
	avg := make([]float64, count)
	for i := range avg {
		for _, s := range srcs {
			avg[i] += FloatAt(s, i, t) / 2 / float64(len(srcs))
		}
	}
	return avg
}
