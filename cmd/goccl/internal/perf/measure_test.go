package perf

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

func mustKind(t *testing.T, name string) Kind {
	t.Helper()
	k, err := ParseKind(name)
	if err != nil {
		t.Fatal(err)
	}
	if k.String() != name {
		t.Fatalf("%q parses to %v", name, k)
	}
	return k
}

func quick(t *testing.T, kind string) Config {
	return Config{Kind: mustKind(t, kind), MinBytes: 0, MaxBytes: 270 << 10, Factor: 512, Iters: 1, Cycles: 2, Check: true}
}

// A correct library passes for every collective, also with counts that do not divide evenly, and with more elements
// than a block.
func TestRightLibraryPasses(t *testing.T) {
	for _, name := range Kinds() {
		for _, n := range []int{1, 2, 5} {
			if testing.Short() && n == 2 {
				continue
			}
			cfg := quick(t, name)
			cfg.MinBytes = 52
			if testing.Short() {
				cfg.MaxBytes, cfg.Factor = 5000, 90 // less than a block
			}
			cfg.Root = n - 1
			rows, err := measureFake(t, n, cfg, Limits{}, nil, &fakeLibrary{name: "right"})
			if err != nil {
				t.Fatalf("%s over %d ranks: %v", name, n, err)
			}
			forms := map[bool]int{}
			for _, r := range rows {
				forms[r.InPlace]++
				if r.Wrong != 0 || r.Stray != 0 || r.Refused != "" {
					t.Errorf("%s over %d ranks: %+v", name, n, r)
				}
				if r.Time <= 0 || r.Samples != 2 || r.Min > r.Time || r.Time > r.P99 || r.CPU > r.P99 {
					t.Errorf("%s over %d ranks: times do not fit: %+v", name, n, r)
				}
			}
			if forms[false] < 2 || (forms[true] > 0) != cfg.Kind.HasInPlace() {
				t.Errorf("%s over %d ranks: rows out of place %d, in place %d", name, n, forms[false], forms[true])
			}
		}
	}
}

func TestEveryTypeAndOp(t *testing.T) {
	if testing.Short() {
		t.Skip("slow under the race detector, and of one kind with the other tests")
	}
	for typ := datatype.Type(0); typ < datatype.NumTypes; typ++ {
		for op := datatype.Op(0); op < datatype.NumOps; op++ {
			for _, n := range []int{3, 20} {
				cfg := Config{Kind: mustKind(t, "all_reduce"), Types: []datatype.Type{typ}, Ops: []datatype.Op{op}, MinBytes: 96,
					MaxBytes: 96, Iters: 1, Cycles: 1, Check: true}
				rows, err := measureFake(t, n, cfg, Limits{}, nil, &fakeLibrary{name: "right"})
				if err != nil {
					t.Fatal(err)
				}
				if s := Summarize(rows); !s.OK() || !s.Checked {
					t.Errorf("%v %v over %d ranks: %+v", typ, op, n, s)
				}
			}
		}
	}
}

// Each kind of error is found, and counted exactly.
func TestWrongLibraryIsFound(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(rank int, r *collective.Request, out []byte)
		wrong int64 // per checked operation
		stray bool
	}{
		{"one bit", func(rank int, _ *collective.Request, out []byte) {
			if rank == 1 {
				out[len(out)-1] ^= 0x40
			}
		}, 1, false},
		{"two elements swapped with zero", func(rank int, _ *collective.Request, out []byte) {
			if rank == 0 {
				encode(out, datatype.Float32, 1e6)
				encode(out[4:], datatype.Float32, 1e6)
			}
		}, 2, false},
		{"writes behind the end", func(rank int, r *collective.Request, out []byte) {
			if rank == 0 {
				device.Bytes(r.Recv.Add(int64(len(out))), 3)[2] = 1
			}
		}, 0, true},
		{"changes its input", func(rank int, r *collective.Request, _ []byte) {
			if rank == 0 && r.Send != r.Recv {
				encode(device.Bytes(r.Send, 4), datatype.Float32, 1e6)
			}
		}, 1, false},
	} {
		cfg := Config{Kind: mustKind(t, "all_reduce"), MinBytes: 4096, MaxBytes: 4096, Iters: 1, Cycles: 1, Check: true,
			OutOfPlace: true}
		rows, err := measureFake(t, 3, cfg, Limits{}, nil, &fakeLibrary{name: "wrong", spoil: c.spoil})
		if err != nil {
			t.Fatal(err)
		}
		// The check runs before and after the batches.
		if rows[0].Wrong != 2*c.wrong || (rows[0].Stray > 0) != c.stray {
			t.Errorf("%s: wrong %d, stray %d", c.name, rows[0].Wrong, rows[0].Stray)
		}
		if s := Summarize(rows); s.OK() {
			t.Errorf("%s: the summary says OK", c.name)
		}
	}
}

func TestOutputNeverWritten(t *testing.T) {
	for _, name := range Kinds() {
		cfg := quick(t, name)
		cfg.MinBytes, cfg.MaxBytes = 3<<10, 3<<10
		lazy := &fakeLibrary{name: "lazy", spoil: func(_ int, r *collective.Request, out []byte) {
			copy(out, device.Bytes(r.Recv, int64(len(out))))
		}}
		rows, err := measureFake(t, 3, cfg, Limits{}, nil, lazy)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.Wrong == 0 {
				t.Errorf("%s in place %v: a library that writes nothing passes", name, r.InPlace)
			}
		}
	}
}

func TestImpossibleFiguresAreRefused(t *testing.T) {
	cfg := Config{Kind: mustKind(t, "all_reduce"), MinBytes: 4096, MaxBytes: 4096, Iters: 1, Cycles: 1, Check: true,
		OutOfPlace: true}
	var b bytes.Buffer
	table := NewTable(&b, nil, []string{"fake"}, cfg)
	rows, err := measureFake(t, 2, cfg, Limits{MinTime: 3600}, table, &fakeLibrary{name: "fake"})
	if err != nil {
		t.Fatal(err)
	}
	s := Summarize(rows)
	table.Footer(s)
	if s.OK() || rows[0].Refused == "" || s.AvgBusBW != 0 {
		t.Errorf("not refused: %+v, %+v", rows[0], s)
	}
	if text := b.String(); !strings.Contains(text, "refused") || !strings.Contains(text, "FAILED") {
		t.Errorf("the table does not say so:\n%s", text)
	}

	g := newGeometry(cfg.Kind, 8, datatype.Float32, datatype.Sum, -1, 1<<30)
	h200 := LimitsOf(&fakeDevice{kind: device.CUDA}, 2, true)
	for _, c := range []struct {
		seconds float64
		ok      bool
	}{{5.1e-3, true}, {4e-3, false}, {1e-7, false}} {
		if got := h200.check(&g, c.seconds); (got == "") != c.ok {
			t.Errorf("1 GiB in %g s on H200: %q", c.seconds, got)
		}
	}
	host := LimitsOf(&fakeDevice{kind: device.Host}, 2, false)
	if host.check(&g, 1) != "" || host.check(&g, 1e-3) == "" {
		t.Error("the host's limits refuse a possible time or pass an impossible one")
	}
}

func TestInterleavedLibrariesAndRecord(t *testing.T) {
	cfg := quick(t, "all_gather")
	cfg.MinBytes = 1 << 10
	var b bytes.Buffer
	table := NewTable(&b, nil, []string{"ours", "theirs"}, cfg)
	rows, err := measureFake(t, 4, cfg, Limits{}, table, &fakeLibrary{name: "ours"}, &fakeLibrary{name: "theirs"})
	if err != nil {
		t.Fatal(err)
	}
	s := Summarize(rows)
	table.Footer(s)
	if s.MeanRatio["theirs"] <= 0 || !s.OK() {
		t.Errorf("summary: %+v", s)
	}
	text := b.String()
	for _, want := range []string{"out-of-place: ours", "in-place: theirs", "ratio", "Mean time ratio",
		"# Wrong elements       : 0 OK"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	dir := t.TempDir()
	rec := Record{Schema: Schema, Command: []string{"goccl"}, Rows: rows, Summary: s}
	path := filepath.Join(dir, "r.json")
	if err := SaveJSON(path, &rec, nil); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back Record
	if err := json.Unmarshal(raw, &back); err != nil || len(back.Rows) != len(rows) || back.Rows[0] != rows[0] {
		t.Errorf("the record does not read back: %v", err)
	}
	if err := SaveJSON(filepath.Join(dir, "no", "such", "folder.json"), &rec, nil); err == nil {
		t.Error("writing into a missing folder succeeds")
	}
}

// On a GPU the time is that between events, without the untimed runs before them, and the timed operations are checked.
func TestEventsAndGraphs(t *testing.T) {
	const slow = 200 * time.Millisecond // more than twice the time of any fake operation, even on a busy machine
	for _, graph := range []int{0, 3, GraphAuto} {
		var replays, calls atomic.Int64
		lib := &fakeLibrary{name: "slow start", spoil: func(rank int, _ *collective.Request, _ []byte) {
			// Only the work before the first event is slow: check, warm-up, and the first untimed run.
			if rank == 1 && calls.Add(1) <= 3 {
				time.Sleep(slow)
			}
		}}
		cfg := quick(t, "all_reduce")
		cfg.MinBytes, cfg.MaxBytes, cfg.Warmup, cfg.Cycles, cfg.OutOfPlace, cfg.GraphOps, cfg.Iters = 4096, 4096, 1, 3, true,
			graph, 2
		rows, err := measureFakeOn(t, Rank{Device: &fakeDevice{kind: device.CUDA},
			Capture: fakeCapturer{&replays}.Capture}, 2, cfg,
			lib)
		if err != nil {
			t.Fatal(err)
		}
		r := rows[0]
		if r.Wrong != 0 || r.Samples != 3 || r.Time <= 0 || r.Time > slow.Seconds()*1e6/2 {
			t.Errorf("graph %d: %+v", graph, r)
		}
		// Per rank: absorbed 2+1+1, timed 3×2, checked 1.
		if want := int64(2 * 11); graph != 0 && replays.Load() != want {
			t.Errorf("graph %d: %d replays, want %d", graph, replays.Load(), want)
		}
		if graph > 0 && (r.GraphOps != 3 || r.Iters != 6) || graph < 0 && (r.GraphOps < 1 || r.GraphOps > maxGraphOps) {
			t.Errorf("graph %d: %d operations a graph, %d a batch", graph, r.GraphOps, r.Iters)
		}
	}
}

func TestFailureOfOneRankEndsAll(t *testing.T) {
	boom := errors.New("boom")
	cfg := quick(t, "all_reduce")
	_, err := measureFake(t, 3, cfg, Limits{}, nil, &fakeLibrary{name: "broken", fail: boom})
	if !errors.Is(err, boom) {
		t.Fatalf("got %v", err)
	}
}

func TestConfigRefusals(t *testing.T) {
	good := quick(t, "broadcast")
	for name, spoil := range map[string]func(*Config){
		"sizes":    func(c *Config) { c.MinBytes = c.MaxBytes + 1 },
		"negative": func(c *Config) { c.MinBytes = -1 },
		"factor":   func(c *Config) { c.Factor = 0.5 },
		"factor 1": func(c *Config) { c.MinBytes, c.MaxBytes, c.Factor = 8, 16, 1 },
		"NaN":      func(c *Config) { c.Factor = math.NaN() },
		"infinite": func(c *Config) { c.Factor = math.Inf(1) },
		"crawling": func(c *Config) { c.MinBytes, c.MaxBytes, c.Factor = 8, 1<<20, 1.0000001 },
		"huge":     func(c *Config) { c.MaxBytes = 1 << 62 },
		"list":     func(c *Config) { c.SizeList = []int64{8, 1 << 62} },
		"iters":    func(c *Config) { c.Iters = 1e12 },
		"warm-up":  func(c *Config) { c.Warmup = 1e12 },
		"many":     func(c *Config) { c.Cycles = 1e12 },
		"graph":    func(c *Config) { c.GraphOps = 1e12 },
		"offset":   func(c *Config) { c.Offset = 1 << 62 },
		"root":     func(c *Config) { c.Root = 4 },
		"type":     func(c *Config) { c.Types = []datatype.Type{datatype.NumTypes} },
		"op":       func(c *Config) { c.Ops = []datatype.Op{datatype.NumOps} },
		"cycles":   func(c *Config) { c.Cycles = -1 },
		"in place": func(c *Config) { c.Kind = mustKind(t, "all_to_all"); c.InPlace = true },
	} {
		c := good
		spoil(&c)
		if err := c.normalize(4); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	c := good
	if err := c.normalize(4); err != nil {
		t.Error(err)
	}
	if err := c.normalize(100_000); !errors.Is(err, ErrInvalid) {
		t.Errorf("100,000 ranks: %v", err)
	}
	c.MinBytes, c.MaxBytes = 1<<45, 1<<45
	if err := c.fits(device.Host, 4, 4); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "memory") {
		t.Errorf("128 TiB: %v", err)
	}
	if _, err := ParseKind("barrier"); err == nil {
		t.Error("barrier is accepted, but moves no data to measure")
	}
}

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		min, max int64
		factor   float64
		want     []int64
	}{
		{8, 64, 2, []int64{8, 16, 32, 64}},
		{8, 100, 4, []int64{8, 32, 100}},
		{0, 16, 2, []int64{0, 16}},
		{5, 5, 2, []int64{5}},
		{8, 64, 1, []int64{8, 64}},
	} {
		got := Sizes(c.min, c.max, c.factor)
		if len(got) != len(c.want) {
			t.Fatalf("%+v: %v", c, got)
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Fatalf("%+v: %v", c, got)
			}
		}
	}
}

// The matrix of all_to_all_v loads every rank equally.
func TestWeightsBalance(t *testing.T) {
	for n := 1; n <= 17; n++ {
		for a := range n {
			var row, col int64
			for b := range n {
				row += weight(n, a, b)
				col += weight(n, b, a)
			}
			if row != int64(n) || col != int64(n) {
				t.Fatalf("%d ranks: rank %d sends %d and receives %d shares", n, a, row, col)
			}
		}
	}
}
