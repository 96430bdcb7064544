package simulate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/simulate"
)

// ownRuns is a directory of bench/results: goccl's native kernels on 4 × H200, replayed from a graph.
const ownRuns = "../../bench/results/2026-11-21-4xH200-2df1a5b"

// nativeStart is where the fits to native kernels start.
const nativeStart = "testdata/native_start.json"

// shape is the program with the same steps and bytes on the wire as the native kernel of a collective, up to a size.
type shape struct {
	upTo      int64
	program   string
	instances int
}

var shapes = map[string][]shape{
	"all_reduce":     {{16 << 10, "allreduce_oneshot_ll", 4}, {4 << 20, "allreduce_twoshot_ll", 32}},
	"all_gather":     {{256 << 10, "allgather_ll", 16}, {64 << 20, "allgather_direct", 32}},
	"reduce_scatter": {{256 << 10, "reducescatter_ll", 16}},
	"all_to_all":     {{256 << 10, "alltoall_ll", 16}, {64 << 20, "alltoall_direct", 32}},
}

func ownRows(t *testing.T, collective string) (rows []simulate.Measurement) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(ownRuns, "perf."+collective+".float.graph.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Setup struct{ Ranks int }
		Rows  []struct {
			Library string
			Size    int64   `json:"size_bytes"`
			Micros  float64 `json:"time_us"`
			InPlace bool    `json:"in_place"`
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, r := range file.Rows {
		if r.Library != "goccl" || r.InPlace {
			continue
		}
		for _, s := range shapes[collective] {
			if r.Size <= s.upTo {
				p := build(t, s.program, programs.Options{Ranks: file.Setup.Ranks, Instances: s.instances})
				rows = append(rows, simulate.Measurement{Plan: p, Size: r.Size, Micros: r.Micros, Label: s.program})
				break
			}
		}
	}
	return rows
}

// The model is fitted to some of the times of goccl's own kernels on four GPUs and predicts the others: once every
// second size, once two collectives that were held out. The fitted machines are in testdata, because a fit takes many
// seconds: GOCCL_FULL=1 fits them again and compares, GOCCL_UPDATE_GOLDEN=1 writes them.
func TestFittedOnSomePredictsOthers(t *testing.T) {
	var sizes, collectives [2][]simulate.Measurement // fitted, held out
	i := 0
	for c, name := range []string{"all_reduce", "all_gather", "reduce_scatter", "all_to_all"} {
		for _, r := range ownRows(t, name) {
			sizes[i%2] = append(sizes[i%2], r)
			collectives[c/2] = append(collectives[c/2], r)
			i++
		}
	}
	text := ""
	for _, c := range []struct {
		name  string
		rows  [2][]simulate.Measurement
		limit float64
	}{{"sizes", sizes, 0.15}, {"collectives", collectives, 0.15}} {
		m := fittedMachine(t, fit{file: "testdata/h200x4_" + c.name + ".json", start: nativeStart, name: "4 x H200",
			source: "fitted to " + ownRuns[6:] + " by TestFittedOnSomePredictsOthers"}, c.rows[0])
		fitted, err := simulate.Compare(m, c.rows[0])
		if err != nil {
			t.Fatal(err)
		}
		held, err := simulate.Compare(m, c.rows[1])
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("By %s. Fitted:\n%v\nHeld out:\n%v\n", c.name, fitted, held)
		if held.Median > c.limit {
			t.Errorf("%s held out: median error %.1f %%, want at most %.0f %%", c.name, 100*held.Median, 100*c.limit)
		}
	}
	golden(t, "testdata/h200x4_report.txt", []byte(text))
}
