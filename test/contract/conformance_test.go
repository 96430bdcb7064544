package contract_test

import (
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

// matrix runs every collective, type and operator at one odd size, and every collective over sizes and shifts in one
// type. few takes types and operators at random: they change arithmetic, and not who waits for whom.
func matrix(t *testing.T, comms []*goccl.Comm, few bool, sizes []int64) {
	n, first, step := len(comms), datatype.Type(0), datatype.Type(1)
	if few {
		step = 4
		first = datatype.Type(rand.IntN(int(step)))
	}
	run := func(c conformance.Case) {
		c.Seed = rand.Uint64()
		if err := conformance.Run(comms, c); err != nil {
			t.Fatalf("%v seed %d: %v", c, c.Seed, err)
		}
	}
	for _, coll := range conformance.Collectives {
		for ty := first; ty < datatype.NumTypes; ty += step {
			ops := []datatype.Op{datatype.Sum}
			if conformance.Reduces(coll) {
				ops = []datatype.Op{datatype.Sum, datatype.Prod, datatype.Max, datatype.Min, datatype.Avg, datatype.PreMulSum}
				if few {
					i := rand.IntN(len(ops) - 1)
					ops = ops[i : i+2]
				}
			}
			for _, op := range ops {
				for _, inPlace := range []bool{false, true} {
					run(conformance.Case{Collective: coll, Type: ty, Op: op, Count: 1013, Root: rand.IntN(n), InPlace: inPlace})
				}
			}
		}
		for _, size := range sizes {
			for _, inPlace := range []bool{false, true} {
				for _, ty := range []datatype.Type{datatype.Float32, datatype.Bfloat16} {
					run(conformance.Case{Collective: coll, Type: ty, Count: size, Root: rand.IntN(n), InPlace: inPlace, Repeat: 3})
				}
			}
			run(conformance.Case{Collective: coll, Type: datatype.Float16, Count: size, Root: rand.IntN(n), Shift: 1})
		}
	}
}

func TestHostOneProcess(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		t.Run(map[int]string{1: "1 rank", 2: "2 ranks", 3: "3 ranks", 8: "8 ranks"}[n], func(t *testing.T) {
			sizes := []int64{0, 1, 2, 127, 4096, 65537}
			comms := commtest.New(t, n, commtest.Host, nil)
			full := setting.Lenient().Full != ""
			if n == 8 && !full {
				for _, c := range conformance.Trimmed(n, rand.Uint64(), []int64{1, 4096}) {
					if err := conformance.Run(comms, c); err != nil {
						t.Fatalf("%v seed %d: %v", c, c.Seed, err)
					}
				}
				return
			}
			if n == 3 && full {
				sizes = append(sizes, 1<<20+3)
			}
			matrix(t, comms, !full, sizes)
		})
	}
}

func TestGPUOneProcess(t *testing.T) {
	n, open := commtest.GPUs(t)
	matrix(t, commtest.New(t, n, open, nil), false, []int64{0, 1, 2, 127, 4096, 65537, 1<<20 + 3, 8 << 20})
}

// TestAveragesNearTheLimit averages elements whose sum is infinite.
func TestAveragesNearTheLimit(t *testing.T) {
	ranks, sizes := []int{2, 3}, []int64{1, 4099}
	if setting.Lenient().Full != "" {
		ranks, sizes = append(ranks, 8), append(sizes, 70_000, 300_001)
	}
	for _, n := range ranks {
		comms := commtest.New(t, n, commtest.Host, nil)
		for _, c := range conformance.Averages(n, sizes...) {
			if err := conformance.Run(comms, c); err != nil {
				t.Error(c, err)
			}
		}
	}
}
