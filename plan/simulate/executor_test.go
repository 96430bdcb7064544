package simulate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/simulate"
)

// executed is a time of the plan executor on four GPUs, replayed from a graph.
type executed struct {
	simulate.Measurement
	program   string
	instances int // 0: the program's default, which is 16
}

// executorRows reads all committed times of the executor.
func executorRows(t *testing.T) (rows []executed) {
	t.Helper()
	files, err := filepath.Glob(ownRuns + "/plan.time/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no times", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Setup struct{ Ranks int }
			Rows  []struct {
				Library string
				Size    int64   `json:"size_bytes"`
				Micros  float64 `json:"time_us"`
			}
		}
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(filepath.Base(name), "instances")
		instances := 0
		if _, err := fmt.Sscan(after, &instances); err != nil && !strings.HasPrefix(after, "default") {
			t.Fatal(name, err)
		}
		for _, r := range file.Rows {
			program := strings.TrimPrefix(r.Library, "goccl:")
			if _, err := programs.Lookup(program); err != nil {
				continue // a native kernel
			}
			p := build(t, program, programs.Options{Ranks: file.Setup.Ranks, Instances: instances})
			rows = append(rows, executed{simulate.Measurement{Plan: p, Size: r.Size, Micros: r.Micros,
				Label: fmt.Sprintf("%s/%d", program, instances)}, program, instances})
		}
	}
	if len(rows) != 80 {
		t.Fatalf("%d times", len(rows))
	}
	return rows
}

// The model is fitted to some of the executor's times and predicts the others: other numbers of instances, a program
// that it has never seen, every second size. The machine that ships is fitted to all. Fitted machines are in testdata,
// because a fit takes a minute: GOCCL_FULL=1 fits them again and compares, GOCCL_UPDATE_GOLDEN=1 writes them.
func TestExecutorTimesArePredicted(t *testing.T) {
	rows := executorRows(t)
	text := ""
	for _, c := range []struct {
		name   string
		fitted func(r executed) bool
	}{
		{"instances", func(r executed) bool { return r.instances == 4 || r.instances == 16 }},
		{"one-shot", func(r executed) bool { return r.program != "allreduce_oneshot_ll" }},
		{"two-shot", func(r executed) bool { return r.program != "allreduce_twoshot_ll" }},
		{"sizes", func(r executed) bool {
			return r.Size != 4<<10 && r.Size != 64<<10 && r.Size != 1<<20 && r.Size != 256<<20
		}},
		{"all", func(executed) bool { return true }},
	} {
		var fitted, held []simulate.Measurement
		for _, r := range rows {
			if c.fitted(r) {
				fitted = append(fitted, r.Measurement)
			} else {
				held = append(held, r.Measurement)
			}
		}
		file := "testdata/executor_" + c.name + ".json"
		if c.name == "all" {
			file = "machines/h200.json"
		}
		m := fittedMachine(t, fit{file: file, start: "testdata/executor_start.json",
			source: fmt.Sprintf("fitted to %d times of the plan executor in %s; rails: published figures", len(fitted),
				ownRuns[6:])}, fitted)
		f, err := simulate.Compare(m, fitted)
		if err != nil {
			t.Fatal(err)
		}
		h, err := simulate.Compare(m, held)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%s. Fitted:\n%v\n", c.name, f)
		if len(held) > 0 {
			text += fmt.Sprintf("Held out:\n%v\n", h)
			if h.Median > 0.12 || h.Worst > 0.30 {
				t.Errorf("%s held out: median error %.1f %%, worst %.1f %%, want at most 12 and 30 %%", c.name, 100*h.Median,
					100*h.Worst)
			}
		}
		text += choices(t, m, rows)
	}
	golden(t, "testdata/executor_report.txt", []byte(text))
}

// choices checks that what the model calls fastest at each size is within 5 % of what was measured to be fastest.
func choices(t *testing.T, m *simulate.Machine, rows []executed) string {
	t.Helper()
	type choice struct{ predicted, chosen, best float64 }
	by := map[string]*choice{}
	var keys []string
	for _, r := range rows {
		key := fmt.Sprintf("%-12s %12d", r.Plan.Collective, r.Size)
		p := run(t, r.Plan, m, r.Size).Micros
		c := by[key]
		if c == nil {
			c = &choice{p, r.Micros, r.Micros}
			by[key] = c
			keys = append(keys, key)
		}
		if p < c.predicted {
			c.predicted, c.chosen = p, r.Micros
		}
		c.best = min(c.best, r.Micros)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, key := range keys {
		c := by[key]
		over := 100 * (c.chosen/c.best - 1)
		fmt.Fprintf(&b, "choice %s: measured %.2f us, the best %.2f us: %.1f %% over\n", key, c.chosen, c.best, over)
		if over > 5 {
			t.Errorf("%s: the model chooses what takes %.2f us, the best takes %.2f", key, c.chosen, c.best)
		}
	}
	return b.String() + "\n"
}
