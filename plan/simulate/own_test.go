package simulate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/goccl/goccl/dsl/programs"
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
	}{{"sizes", sizes, 0.10}, {"collectives", collectives, 0.15}} {
		file := "testdata/h200x4_" + c.name + ".json"
		update := os.Getenv("GOCCL_UPDATE_GOLDEN") != ""
		if update || os.Getenv("GOCCL_FULL") != "" {
			f, err := simulate.Fit(readMachine(t, nativeStart), c.rows[0], simulate.FitOptions{})
			if err != nil {
				t.Fatal(err)
			}
			f.Machine.Name, f.Machine.Source = "4 x H200", "fitted to "+ownRuns[6:]+" by TestFittedOnSomePredictsOthers"
			if update {
				if err := os.WriteFile(file, f.Machine.JSON(), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if want, err := os.ReadFile(file); err != nil || runtime.GOARCH == "amd64" &&
				!bytes.Equal(want, f.Machine.JSON()) {
				t.Errorf("a fit gives another machine than %s (%v); run with GOCCL_UPDATE_GOLDEN=1 and look at the change", file,
					err)
			}
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := simulate.ParseMachine(data)
		if err != nil {
			t.Fatal(err)
		}
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
	golden(t, "testdata/h200x4_report.txt", text)
}

// golden compares text with a file. On other architectures floating-point operations are contracted, so a last digit
// may differ.
func golden(t *testing.T, file, text string) {
	t.Helper()
	if os.Getenv("GOCCL_UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || runtime.GOARCH == "amd64" && string(want) != text {
		t.Errorf("%s is not what the model says now (%v); run with GOCCL_UPDATE_GOLDEN=1 and look at the change\n%s", file,
			err, text)
	}
}
