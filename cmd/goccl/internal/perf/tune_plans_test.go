package perf

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
)

// everySize is an algorithm that accepts multiples of unit bytes.
type everySize struct {
	collective.Algorithm
	unit int64
}

func (everySize) MessageRange() (least, most uint64) { return 1, collective.AnySize }

func (a everySize) Accepts(r *collective.Request) error {
	if r.Bytes()%a.unit != 0 {
		return fmt.Errorf("%d bytes", r.Bytes())
	}
	return nil
}

func ringPlan(t *testing.T) *plan.Plan {
	t.Helper()
	p, err := programs.Build("allreduce_ring", programs.Options{Ranks: 3, Hosts: 1})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A plan wins where it is faster at every measured size, in each mode, in place or not; and where it ran at all.
func TestPlanWinners(t *testing.T) {
	kind := Kind{Collective: collective.AllReduce}
	library := func(name string, unit int64) *planLibrary {
		p := *ringPlan(t)
		p.Name = name
		return &planLibrary{ours: ours{kind: kind}, plan: &p, algorithm: everySize{unit: unit}}
	}
	list := []*planLibrary{library("a", 4), library("b", 4), library("odd", 96)}
	rows := func(times map[int64][4]float64, slowInPlace int64) (rows []Row) {
		for _, size := range []int64{64, 128, 256, 512, 1024} {
			for _, in := range []bool{false, true} {
				for i, name := range []string{"goccl", "a", "b", "odd"} {
					r := Row{Library: name, Size: size, Count: size / 4, InPlace: in, Time: times[size][i]}
					if in && name == "b" && size == slowInPlace {
						r.Time *= 10
					}
					rows = append(rows, r)
				}
			}
		}
		return rows
	}
	times := map[int64][4]float64{64: {10, 9, 20, 1}, 128: {10, 8, 7.9, 1}, 256: {10, 8, 5, 1}, 512: {10, 9.9, 4, 1},
		1024: {10, 20, 5, 1}}
	score := planScore{}
	score.add(rows(times, 0), list)
	want := []planRange{{0, 64, 128, 10 / 9.}, {1, 256, 1024, 2}}
	if got := score.winners(); !slices.Equal(got, want) {
		t.Errorf("one mode: %v, want %v", got, want)
	}
	score.add(rows(times, 512), list) // in the other mode, b loses a size
	want = []planRange{{0, 64, 128, 10 / 9.}, {1, 256, 256, 2}, {1, 1024, 1024, 2}}
	if got := score.winners(); !slices.Equal(got, want) {
		t.Errorf("both modes: %v, want %v", got, want)
	}

	dir := filepath.Join(t.TempDir(), "plans")
	var out strings.Builder
	printf := func(format string, args ...any) { fmt.Fprintf(&out, format, args...) }
	o := TuneOptions{Plans: dir}
	for _, won := range [][]planRange{{{2, 1, 7, 9}}, want} { // the second run replaces what the first wrote
		if err := o.writePlans(kind, 3, list, won, printf); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 3 {
		t.Fatalf("%v %v\n%s", files, err, out.String())
	}
	for i, path := range []string{"64_to_128", "256_to_256", "1024_to_1024"} {
		data, err := os.ReadFile(filepath.Join(dir, "tuned_all_reduce_3_ranks_"+path+".json"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Decode(data)
		if err != nil || p.MinSize != uint64(want[i].from) || p.MaxSize != uint64(want[i].to) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := o.writePlans(kind, 3, list, nil, printf); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("plans that no longer win are left: %v", left)
	}
}

// Plans are measured on the host device, checked, and only at sizes that they accept.
func TestTunePlansOnHost(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	var searched []int64
	o := TuneOptions{Launch: Launch{Ranks: 3, Device: "host", Stdout: &out}, Collectives: []string{"all_reduce"},
		MinBytes: 48, MaxBytes: 4096, Factor: 8, Cycles: 1, Timeout: time.Minute, Plans: filepath.Join(dir, "plans"),
		Rows: filepath.Join(dir, "rows.json")}
	err := TunePlans(t.Context(), o, func(c collective.Collective, ranks, hosts int, size int64) ([]*plan.Plan, error) {
		searched = append(searched, size)
		if c != collective.AllReduce || ranks != 3 || hosts != 1 {
			t.Errorf("search of %v, %d ranks, %d hosts", c, ranks, hosts)
		}
		return []*plan.Plan{ringPlan(t)}, nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if want := []int64{48, 48 * searchFactor}; !slices.Equal(searched, want) {
		t.Errorf("searched sizes %v, want %v", searched, want)
	}
	rows, err := os.ReadFile(o.Rows)
	if err != nil || !bytes.Contains(rows, []byte(`"library": "allreduce_ring_48_0"`)) {
		t.Errorf("%v: the plan was not measured once: %s", err, rows)
	}
	if strings.Contains(string(rows), "allreduce_ring_1536") {
		t.Error("the same plan was measured twice")
	}
	t.Setenv("GOCCL_PLAN_DIR", dir)
	if err := TunePlans(t.Context(), o, nil); err == nil || !strings.Contains(err.Error(), "unset it") {
		t.Errorf("with GOCCL_PLAN_DIR: %v", err)
	}
}
