package main

import (
	"strings"
	"testing"
)

func TestRows(t *testing.T) {
	plan := "[0]         1024 bytes  float    sum          84.8 us      0.01 GB/s  right\n"
	rows, err := parse("p", strings.NewReader(plan))
	if err != nil || len(rows) != 1 || rows[0] != (row{Library: "p", Size: 1024, Time: 84.8}) {
		t.Errorf("a plan: %+v, %v", rows, err)
	}
	perf := `{"rows": [{"library": "x", "size_bytes": 8, "time_us": 2.5, "min_us": 2, "wrong": 0}]}`
	rows, err = parse("goccl", strings.NewReader(perf))
	if err != nil || len(rows) != 1 || rows[0] != (row{Library: "goccl", Size: 8, Time: 2.5, Min: 2}) {
		t.Errorf("perf: %+v, %v", rows, err)
	}
	if rows, err = parse("p", strings.NewReader("")); err != nil || rows != nil {
		t.Errorf("nothing: %+v, %v", rows, err)
	}
	for _, bad := range []string{"1024 bytes wrong\n", `{"rows": []}`, `{"error": "x"}`, "{"} {
		if _, err := parse("p", strings.NewReader(bad)); err == nil {
			t.Errorf("%q was taken for a measurement", bad)
		}
	}
}

func TestMerge(t *testing.T) {
	rows, err := readTurns(strings.NewReader(`# turn 1
{"library":"openmpi","version":"Open MPI v4","size_bytes":1024,"time_us":40}
{"library":"goccl","size_bytes":1024,"time_us":10}
# turn 2
{"library":"openmpi","version":"Open MPI v4","size_bytes":1024,"time_us":60}
{"library":"goccl","size_bytes":1024,"time_us":30}
{"library":"openmpi","version":"Open MPI v4","size_bytes":8,"time_us":5}
`))
	if err != nil {
		t.Fatal(err)
	}
	c := merge(rows)
	if len(c.Sizes) != 2 || c.Sizes[0].Bytes != 8 || c.OpenMPI != "Open MPI v4" {
		t.Fatalf("%+v", c)
	}
	s := c.Sizes[1]
	if s.Median[peer] != 50 || s.Best[peer] != 40 || s.Median["goccl"] != 20 || s.Ratio["goccl"] != 2.5 {
		t.Errorf("%+v", s)
	}
	if got := string(c.table()); !strings.Contains(got, "| 1024 | 50.0 | 20.0 (2.50×) |") ||
		!strings.Contains(got, "| 8 | 5.0 | |") {
		t.Error(got)
	}
	if _, err := readTurns(strings.NewReader(`{"library":"goccl","size_bytes":8,"time_us":1,"wrong":3}`)); err == nil {
		t.Error("wrong results were compared")
	}
}
