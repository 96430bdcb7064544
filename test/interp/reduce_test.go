package interp_test

import (
	"math"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/test/interp"
)

// Every type under every operator, through every op that reduces: packets, stores, loads, switch channels.
func TestReductionsOfEveryType(t *testing.T) {
	for _, name := range []string{"allreduce_oneshot_ll", "allreduce_twoshot_ll", "allreduce_direct", "allreduce_switch",
		"allreduce_ring", "reducescatter_direct", "reduce_push"} {
		for _, op := range []datatype.Op{datatype.Sum, datatype.Min, datatype.Max, datatype.Prod} {
			caller, err := programs.Build(name, programs.Options{Ranks: 3, Instances: 1})
			if err != nil {
				t.Fatal(err)
			}
			fixed, err := programs.Build(name, programs.Options{Ranks: 3, Instances: 1, ReduceOp: dsl.ReduceOp(op.String())})
			if err != nil {
				t.Fatal(err)
			}
			for dt := range datatype.NumTypes {
				sizes := []uint64{uint64(3 * 5 * 16), 3 * 40}
				if err := interp.CheckReduction(caller, sizes, dt, op, uint64(dt)); err != nil {
					t.Errorf("%s, %v of %v: %v", name, op, dt, err)
				}
				// The operator of the plan takes precedence over the caller's.
				if err := interp.CheckReduction(fixed, sizes, dt, datatype.Sum, uint64(dt)); err != nil {
					t.Errorf("%s, fixed to %v of %v: %v", name, op, dt, err)
				}
			}
		}
	}
}

// A plan that reduces all operands in one op rounds once: 1 + 2⁻¹¹ + 2⁻¹¹ in half precision is 1 when each addition is
// rounded, and 1 + 2⁻¹⁰ when only the sum is.
func TestSmallFloatsAccumulateInFloat32(t *testing.T) {
	p, err := programs.Build("allreduce_oneshot_ll", programs.Options{Ranks: 3, Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	const one, tiny, sum = 0x3c00, 0x1000, 0x3c01
	ranks := 0
	err = interp.Run(p, interp.Config{Sizes: []uint64{48}, Type: datatype.Float16, Op: datatype.Sum,
		Fill: func(rank, _ int, in []byte) {
			v := uint16(tiny)
			if rank == 0 {
				v = one
			}
			for i := 0; i < len(in); i += 2 {
				in[i], in[i+1] = byte(v), byte(v>>8)
			}
		},
		Check: func(rank, _ int, _, out []byte) error {
			ranks++
			for i := 0; i < len(out); i += 2 {
				if got := uint16(out[i]) | uint16(out[i+1])<<8; got != sum {
					t.Fatalf("rank %d, element %d: %#x, want %#x", rank, i/2, got, sum)
				}
			}
			return nil
		}})
	if err != nil || ranks != 3 {
		t.Fatal(ranks, err)
	}
}

// Minima and maxima treat NaN as CUDA's fmin and fmax do: a number wins.
func TestExtremaOfNaN(t *testing.T) {
	p, err := programs.Build("allreduce_direct", programs.Options{Ranks: 2, Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []datatype.Op{datatype.Min, datatype.Max} {
		err = interp.Run(p, interp.Config{Sizes: []uint64{32}, Type: datatype.Float32, Op: op,
			Fill: func(rank, _ int, in []byte) {
				v := float32(2)
				if rank == 0 {
					v = float32(math.NaN())
				}
				for i := 0; i < len(in); i += 4 {
					bits := math.Float32bits(v)
					in[i], in[i+1], in[i+2], in[i+3] = byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24)
				}
			},
			Check: func(rank, _ int, _, out []byte) error {
				for i := 0; i < len(out); i += 4 {
					bits := uint32(out[i]) | uint32(out[i+1])<<8 | uint32(out[i+2])<<16 | uint32(out[i+3])<<24
					if v := math.Float32frombits(bits); v != 2 {
						t.Fatalf("%v on rank %d: %v", op, rank, v)
					}
				}
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	p, err := programs.Build("allreduce_direct", programs.Options{Ranks: 2, Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]interp.Config{
		"average":   {Sizes: []uint64{32}, Type: datatype.Float32, Op: datatype.Avg},
		"type":      {Sizes: []uint64{32}, Type: datatype.NumTypes},
		"elements":  {Sizes: []uint64{30}, Type: datatype.Float32},
		"no layout": {Sizes: []uint64{1 << 63}, Type: datatype.Float32},
	} {
		if interp.Run(p, cfg) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
