package simulate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/simulate"
)

func build(t testing.TB, name string, o programs.Options) *plan.Plan {
	t.Helper()
	p, err := programs.Build(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A fit to another machine's measurements finds a machine that predicts the held-out measurements.
func TestFitFindsTheMachineThatMadeTheMeasurements(t *testing.T) {
	truth := machine(t)
	for name, f := range map[string]float64{"launch_us": 2, "flag_us": 2.5, "nvlink.port_gbps": 0.8,
		"block.bulk_gbps": 0.6, "block.quick_us": 0.7} {
		v, err := truth.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := truth.Set(name, v*f); err != nil {
			t.Fatal(err)
		}
	}
	rows := func(ranks ...int) (out []simulate.Measurement) {
		for _, n := range ranks {
			for _, name := range []string{"allreduce_twoshot_ll", "allgather_direct"} {
				p := build(t, name, programs.Options{Ranks: n})
				for _, size := range []int64{1 << 10, 1 << 16, 1 << 20, 8 << 20} {
					r, err := simulate.Run(p, truth, size)
					if err != nil {
						t.Fatal(err)
					}
					out = append(out, simulate.Measurement{Plan: p, Size: size, Micros: r.Micros})
				}
			}
		}
		return out
	}
	fitted, err := simulate.Fit(machine(t), rows(2, 4), simulate.FitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before, err := simulate.Compare(machine(t), rows(8))
	if err != nil {
		t.Fatal(err)
	}
	after, err := simulate.Compare(fitted.Machine, rows(8))
	if err != nil {
		t.Fatal(err)
	}
	if before.Median < 0.1 {
		t.Fatalf("the test measures nothing: median error %.3f before the fit", before.Median)
	}
	if after.Median > 0.05 || fitted.After.Median > 0.03 {
		t.Errorf("median error %.3f of the fitted rows, %.3f of those held out (%.3f before)\n%v", fitted.After.Median,
			after.Median, before.Median, after)
	}
}

type row struct {
	Program   string  `json:"program"`
	Instances int     `json:"instances"`
	Ranks     int     `json:"ranks"`
	Size      int64   `json:"size"`
	Micros    float64 `json:"us"`
}

func readRows(t *testing.T, file string) (rows []simulate.Measurement) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []row
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		p := build(t, r.Program, programs.Options{Ranks: r.Ranks, Instances: r.Instances})
		rows = append(rows, simulate.Measurement{Plan: p, Size: r.Size, Micros: r.Micros})
	}
	return rows
}

// The rows of testdata/h200_rows.json were measured on 8 × H200 with native kernels of the same algorithms. A model
// fitted to the rows of 4 GPUs predicts the rows of 8.
func TestFittedOnFourPredictsEight(t *testing.T) {
	var four, eight []simulate.Measurement
	for _, m := range readRows(t, "testdata/h200_rows.json") {
		if len(m.Plan.GPUs) == 8 {
			eight = append(eight, m)
		} else {
			four = append(four, m)
		}
	}
	fitted, err := simulate.Fit(readMachine(t, nativeStart), four, simulate.FitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := simulate.Compare(fitted.Machine, eight)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("Fitted to 4 GPUs:\n%v\nHeld out, 8 GPUs:\n%v", fitted.After, report)
	golden(t, "testdata/h200_report.txt", []byte(text))
	if math.IsNaN(report.Median) || report.Median > 0.15 {
		t.Errorf("median error %.1f %% on 8 GPUs, want at most 15 %%", 100*report.Median)
	}
}
