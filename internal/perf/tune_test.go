package perf

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/algorithm/nvlink"
)

func TestFastest(t *testing.T) {
	row := func(size int64, library string, time float64) Row {
		return Row{Size: size, Library: library, Time: time}
	}
	rows := []Row{
		row(1<<10, "one_shot_ll/64", 2.0), row(1<<10, "two_shot_ll128/256", 3.0),
		row(1<<12, "one_shot_ll/64", 2.5), row(1<<12, "two_shot_ll128/256", 2.45), // within what scatters
		row(1<<14, "one_shot_ll/64", 5.0), row(1<<14, "two_shot_ll128/256", 3.0),
		row(1<<16, "two_shot_ll128/256", 4.0), // the other was left out
		row(1<<18, "two_shot_ll128/256", 8.0), row(1<<18, "two_shot_ll128/512", 6.0),
	}
	got := fastest(rows)
	want := []nvlink.Row{{Bytes: 1 << 13, Algorithm: "one_shot_ll/64"}, {Bytes: 1 << 17, Algorithm: "two_shot_ll128/256"}, {Algorithm: "two_shot_ll128/512"}}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	// What is written is what GOCCL_TUNING reads.
	path := filepath.Join(t.TempDir(), "table.json")
	if err := writeJSON(path, nvlink.Table{GPU: "some GPU", Ranks: 3, Collectives: map[string][]nvlink.Row{"all_reduce": got}}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCCL_TUNING", path)
	table, err := nvlink.LoadTable("another", 8)
	if err != nil || !reflect.DeepEqual(table.Collectives["all_reduce"], want) {
		raw, _ := json.Marshal(table)
		t.Fatalf("%v: %s", err, raw)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
}

// A library that is too slow twice running is left out of larger sizes, on all ranks alike.
func TestPrune(t *testing.T) {
	slow := &fakeLibrary{name: "slow", spoil: func(_ int, _ *algorithm.Request, _ []byte) { time.Sleep(5 * time.Millisecond) }}
	cfg := quick(t, "all_reduce")
	cfg.MinBytes, cfg.MaxBytes, cfg.Factor, cfg.OutOfPlace, cfg.Prune = 64, 1024, 2, true, 2
	rows, err := measureFake(t, 3, cfg, Limits{}, nil, slow, &fakeLibrary{name: "fast"})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, r := range rows {
		count[r.Library]++
	}
	if count["slow"] != pruneAfter || count["fast"] != 5 {
		t.Errorf("rows by library: %v", count)
	}
}
