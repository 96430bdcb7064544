package simulate_test

import (
	"math"
	"testing"

	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/simulate"
)

// Operands that are aligned to 8 or 4 bytes only take 2 or 4 times the rounds. Operands that are aligned to 16 bytes
// take no more, even if they divide a message unevenly.
func TestUnalignedOperandsGoWordByWord(t *testing.T) {
	m := machine(t)
	p := build(t, "reducescatter_direct", programs.Options{Ranks: 3, Instances: 4})
	whole := run(t, p, m, 3*16<<20).Micros
	for less, most := range map[int64]float64{48: 1.01, 24: 2.1, 12: 4.2} {
		r := run(t, p, m, 3*16<<20-less).Micros / whole
		if r > most || r < 0.85*most {
			t.Errorf("%d bytes less take %.2f times as long, want about %.2f", less, r, most)
		}
	}
}

// A reduction of more sources in the same number of rounds takes hardly longer.
func TestRoundsCountNotOperands(t *testing.T) {
	m := machine(t)
	took := func(ranks int) float64 {
		p := build(t, "reduce_direct", programs.Options{Ranks: ranks, Instances: 4})
		return run(t, p, m, int64(ranks)*(8<<20)).Micros
	}
	if two, four := took(2), took(4); four > 1.3*two {
		t.Errorf("of 2 ranks %.1f us, of 4 ranks %.1f us", two, four)
	}
}

// Times from a coarse clock are rounded up to its steps. A fit that knows the step finds the machine that made them; a
// fit that does not know it finds another machine.
func TestFitToTimesOfACoarseClock(t *testing.T) {
	const step = 20.0
	truth := machine(t)
	for name, f := range map[string]float64{"block.bulk_gbps": 0.7, "pull_us": 1.4, "block.quick_us": 1.3} {
		v, err := truth.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := truth.Set(name, v*f); err != nil {
			t.Fatal(err)
		}
	}
	var exact, rounded, known []simulate.Measurement
	for _, name := range []string{"allgather_direct", "allreduce_direct", "allreduce_ring", "allreduce_twoshot_ll"} {
		for _, ranks := range []int{2, 4} {
			p := build(t, name, programs.Options{Ranks: ranks, Instances: 4})
			for _, size := range []int64{1 << 10, 64 << 10, 1 << 20, 8 << 20} {
				us := run(t, p, truth, size).Micros
				exact = append(exact, simulate.Measurement{Plan: p, Size: size, Micros: us})
				late := step * math.Ceil(us/step)
				rounded = append(rounded, simulate.Measurement{Plan: p, Size: size, Micros: late})
				known = append(known, simulate.Measurement{Plan: p, Size: size, Micros: late, Step: step})
			}
		}
	}
	errors := func(rows []simulate.Measurement) simulate.Report {
		f, err := simulate.Fit(machine(t), rows, simulate.FitOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := simulate.Compare(f.Machine, exact)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := errors(known); r.Median > 0.05 {
		t.Errorf("with the step known: median error %.3f\n%v", r.Median, r)
	}
	if r := errors(rounded); r.Median < 0.1 {
		t.Errorf("the test measures nothing: without the step the median error is %.3f", r.Median)
	}
}
