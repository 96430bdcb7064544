package perf

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/engine/nvlink"
)

func TestFastest(t *testing.T) {
	row := func(size int64, library string, time float64) Row {
		return Row{Size: size, Library: library, Time: time}
	}
	rows := []Row{
		row(1<<10, "one_shot_ll/64", 2.0), row(1<<10, "two_shot_ll128/256", 3.0),
		row(1<<12, "one_shot_ll/64", 2.5), row(1<<12, "two_shot_ll128/256", 2.45), // within the noise
		row(1<<14, "one_shot_ll/64", 5.0), row(1<<14, "two_shot_ll128/256", 3.0),
		row(1<<16, "two_shot_ll128/256", 4.0), // the other algorithm was left out
		row(1<<18, "two_shot_ll128/256", 8.0), row(1<<18, "two_shot_ll128/512", 6.0),
	}
	got := fastest(rows)
	want := []nvlink.Row{{Bytes: 1 << 13, Algorithm: "one_shot_ll/64"}, {Bytes: 1 << 17, Algorithm: "two_shot_ll128/256"},
		{Algorithm: "two_shot_ll128/512"}}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	// The written file is read again.
	path := filepath.Join(t.TempDir(), "table.json")
	if err := SaveJSON(path, nvlink.Table{GPU: "some GPU", Ranks: 3,
		Collectives: map[string][]nvlink.Row{"all_reduce": got}}, nil); err != nil {
		t.Fatal(err)
	}
	table, err := nvlink.LoadTable(path, nvlink.GPU{Name: "another"}, 8)
	if err != nil || !reflect.DeepEqual(table.Collectives["all_reduce"], want) {
		raw, _ := json.Marshal(table)
		t.Fatalf("%v: %s", err, raw)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
}

// The table that tune writes describes its measurements, for any GPU, modes and widths.
func TestTuneTable(t *testing.T) {
	rows := func(name string) []nvlink.Row { return []nvlink.Row{{Algorithm: name}} }
	old := func() *nvlink.Table {
		return &nvlink.Table{GPU: "some GPU", Ranks: 4,
			Collectives: map[string][]nvlink.Row{"all_reduce": rows("one_shot_ll/32"), "broadcast": rows("one_shot_ll128/32")},
			Special: []nvlink.Special{{Collective: "allreduce", Mode: "eager", Rows: rows("one_shot_ll/96")},
				{Collective: "broadcast", Mode: "eager", Rows: rows("one_shot_ll128/64")}}}
	}
	kind := func(c collective.Collective) Kind { return Kind{Collective: c} }
	for name, c := range map[string]struct {
		o     TuneOptions
		kinds []Kind
		want  []string // mode, width and algorithm of special rows
	}{
		"all agree": {TuneOptions{}, []Kind{kind(collective.AllReduce)}, nil},
		"one sweep": {TuneOptions{Modes: []string{"eager"}, Widths: []int{2}}, []Kind{kind(collective.AllReduce)}, nil},
		"modes":     {TuneOptions{Widths: []int{4}}, []Kind{kind(collective.AllReduce)}, []string{"graph 0", "eager 0"}},
		"widths": {TuneOptions{Modes: []string{"graph"}, Widths: []int{4, 1}}, []Kind{kind(collective.AllReduce)},
			[]string{" 4", " 1"}},
		"both": {TuneOptions{Widths: []int{4, 1}}, []Kind{kind(collective.AllReduce)},
			[]string{"graph 4", "graph 1", "eager 4", "eager 1"}},
		"no numbers": {TuneOptions{}, []Kind{kind(collective.AllGather)}, []string{"graph 0", "eager 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			sweeps, err := c.o.sweeps(c.kinds)
			if err != nil {
				t.Fatal(err)
			}
			best := make([][]nvlink.Row, len(sweeps))
			for i := range best {
				best[i] = rows("one_shot_ll/128")
				if len(c.want) > 0 && i > 0 {
					best[i] = rows(fmt.Sprintf("one_shot_ll128/%d", 32*(i+1)))
				}
			}
			table := old()
			enter(table, sweeps, best)
			var got []string
			for _, s := range table.Special {
				if s.Collective == c.kinds[0].String() {
					got = append(got, fmt.Sprintf("%s %d", s.Mode, s.Width))
				}
			}
			if name := c.kinds[0].String(); !slices.Equal(got, c.want) || !slices.Equal(table.Collectives[name], best[0]) ||
				len(table.Collectives["broadcast"]) != 1 ||
				len(table.Special) != len(c.want)+1+btoi(c.kinds[0].Collective != collective.AllReduce) {
				t.Errorf("%+v", table)
			}
			path := filepath.Join(t.TempDir(), "table.json")
			if err := SaveJSON(path, table, nil); err != nil {
				t.Fatal(err)
			}
			if loaded, err := nvlink.LoadTable(path, nvlink.GPU{Name: "another"}, 8); err != nil || !reflect.DeepEqual(loaded,
				table) {
				t.Errorf("%v: %+v", err, loaded)
			}
		})
	}
	for _, bad := range []TuneOptions{{Modes: []string{"lazy"}}, {Modes: []string{"eager", "eager"}}, {Widths: []int{3}},
		{Widths: []int{2, 2}}} {
		if _, err := bad.sweeps(nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A library that is too slow twice in a row is left out of larger sizes on every rank, but not before PruneFrom.
func TestPrune(t *testing.T) {
	t.Run("from the start", func(t *testing.T) { testPrune(t, 0, pruneAfter) })
	t.Run("from 256", func(t *testing.T) { testPrune(t, 256, 2+pruneAfter) })
}

func testPrune(t *testing.T, from int64, want int) {
	slow := &fakeLibrary{name: "slow", spoil: func(_ int, _ *collective.Request, _ []byte) {
		time.Sleep(50 * time.Millisecond)
	}}
	cfg := quick(t, "all_reduce")
	cfg.MinBytes, cfg.MaxBytes, cfg.Factor, cfg.OutOfPlace, cfg.Prune, cfg.PruneFrom = 64, 1024, 2, true, 2, from
	for attempt := 1; ; attempt++ { // on a busy machine, the fast one may be slow once or twice
		rows, err := measureFake(t, 3, cfg, Limits{}, nil, slow, &fakeLibrary{name: "fast"})
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, r := range rows {
			count[r.Library]++
		}
		if count["slow"] == want && count["fast"] == 5 {
			return
		}
		t.Logf("rows by library: %v, want %d and 5: %+v", count, want, rows)
		if attempt == 5 {
			t.Fatal("five times")
		}
	}
}
