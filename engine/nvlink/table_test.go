package nvlink

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
)

func TestLoadTable(t *testing.T) {
	for _, c := range []struct {
		gpu         string
		ranks, want int
	}{{"NVIDIA H200", 4, 4}, {"NVIDIA H200", 3, 2}, {"NVIDIA H200", 16, 8}, {"some other GPU", 8, 8}} {
		got, err := LoadTable("", GPU{Name: c.gpu, Major: 9}, c.ranks)
		if err != nil {
			t.Fatal(err)
		}
		if got.Ranks != c.want {
			t.Errorf("LoadTable(%q, %d) is for %d ranks: want %d", c.gpu, c.ranks, got.Ranks, c.want)
		}
	}
}

func TestTableRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"unknown collective": `{"gpu":"x","ranks":2,"collectives":{"all_sort":[{"bytes":0,"algorithm":"one_shot_ll"}]}}`,
		"unknown algorithm":  `{"gpu":"x","ranks":2,"collectives":{"all_reduce":[{"bytes":0,"algorithm":"three_shot"}]}}`,
		"another's": `{"version":2,"gpu":"x","ranks":2,
			"collectives":{"all_gather":[{"bytes":0,"algorithm":"two_shot_ll"}]}}`,
		"nobody's": `{"gpu":"x","ranks":2,"collectives":{"send":[{"bytes":0,"algorithm":"one_shot_ll"}]}}`,
		"threads": `{"gpu":"x","ranks":2,
			"collectives":{"all_reduce":[{"bytes":0,"algorithm":"one_shot_ll/100"}]}}`,
		"no last row": `{"gpu":"x","ranks":2,"collectives":{"all_reduce":[{"bytes":1,"algorithm":"one_shot_ll"}]}}`,
		"descending": `{"gpu":"x","ranks":2,
			"collectives":{"all_reduce":[{"bytes":9,"algorithm":"one_shot_ll"},
			{"bytes":3,"algorithm":"one_shot_ll"},{"bytes":0,"algorithm":"one_shot_ll"}]}}`,
		"unknown field":   `{"gpu":"x","ranks":2,"rows":1}`,
		"a later version": `{"version":3,"gpu":"x","ranks":2,"collectives":{}}`,
		"special in 1": `{"gpu":"x","ranks":2,
			"special":[{"collective":"all_reduce","mode":"graph","rows":[{"bytes":0,"algorithm":"one_shot_ll"}]}]}`,
		"mode": `{"version":2,"gpu":"x","ranks":2,
			"special":[{"collective":"all_reduce","mode":"lazy","rows":[{"bytes":0,"algorithm":"one_shot_ll"}]}]}`,
		"width": `{"version":2,"gpu":"x","ranks":2,
			"special":[{"collective":"all_reduce","width":3,"rows":[{"bytes":0,"algorithm":"one_shot_ll"}]}]}`,
		"nothing special": `{"version":2,"gpu":"x","ranks":2,
			"special":[{"collective":"all_reduce","rows":[{"bytes":0,"algorithm":"one_shot_ll"}]}]}`,
		"twice": `{"version":2,"gpu":"x","ranks":2,
			"special":[{"collective":"all_reduce","width":2,"rows":[{"bytes":0,"algorithm":"one_shot_ll"}]},
			{"collective":"allreduce","width":2,"rows":[{"bytes":0,"algorithm":"one_shot_ll"}]}]}`,
	} {
		if _, err := decodeTable(name, []byte(text)); !errors.Is(err, collective.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A table of version 1 chooses as before: its rows are for every width and mode, and small broadcasts are one-shot.
func TestTableVersion1(t *testing.T) {
	table, err := decodeTable("old",
		[]byte(
			`{"gpu":"x","ranks":4,
			"collectives":{"all_reduce":[{"bytes":1024,"algorithm":"one_shot_ll/64"},
			{"bytes":0,"algorithm":"two_shot_ll128/512"}],
		"broadcast":[{"bytes":0,"algorithm":"one_shot_ll/128"}],"reduce":[{"bytes":0,"algorithm":"two_shot_ll/64"}],
		"all_to_all":[{"bytes":0,"algorithm":"two_shot_ll128/64"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := table.compile()
	if err != nil {
		t.Fatal(err)
	}
	for ty := range datatype.NumTypes {
		for captured := range 2 {
			for bytes, want := range map[int64]string{1: "one_shot_ll/64", 1024: "one_shot_ll/64", 1025: "two_shot_ll128/512",
				1 << 40: "two_shot_ll128/512"} {
				if got := s.pick(collective.AllReduce, ty, bytes, captured).String(); got != want {
					t.Errorf("%v, %d bytes, captured %d: %s, want %s", ty, bytes, captured, got, want)
				}
			}
			for bytes, want := range map[int64]bool{1: false, broadcastSplit - 1: false, broadcastSplit: true} {
				if got := s.pick(collective.Broadcast, ty, bytes, captured); got.twoShot != want {
					t.Errorf("broadcast of %d bytes: %v", bytes, got)
				}
			}
		}
	}
	for c, want := range map[collective.Collective]string{collective.Broadcast: "two_shot_ll128/128",
		collective.Reduce: "two_shot_ll128/64", collective.AllToAll: "one_shot_ll128/64"} {
		if got := s.pick(c, datatype.Int8, 1<<20, 0).String(); got != want {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
	if s.modes != (selection{}).modes {
		t.Error("modes differ")
	}
}

func TestTableSpecial(t *testing.T) {
	rows := func(name string) string { return `[{"bytes":0,"algorithm":"` + name + `"}]` }
	table, err := decodeTable("new", []byte(`{"version":2,"gpu":"x","ranks":4,
		"collectives":{"all_reduce":`+rows("one_shot_ll/32")+`,"reduce_scatter":`+rows("one_shot_ll/32")+`,"reduce":`+
		rows("one_shot_ll/32")+`},
		"special":[
			{"collective":"all_reduce","mode":"eager","width":2,"rows":`+rows("one_shot_ll/64")+`},
			{"collective":"all_reduce","mode":"eager","width":8,"rows":`+rows("one_shot_ll/96")+`},
			{"collective":"all_reduce","mode":"graph","rows":`+rows("one_shot_ll/128")+`},
			{"collective":"all_reduce","mode":"graph","width":1,"rows":`+rows("one_shot_ll/160")+`},
			{"collective":"reduce_scatter","width":4,"rows":`+rows("one_shot_ll/192")+`}]}`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := table.compile()
	if err != nil {
		t.Fatal(err)
	}
	type key struct {
		c        collective.Collective
		width    int
		captured int
	}
	types := map[int]datatype.Type{1: datatype.Float8E5M2, 2: datatype.Bfloat16, 4: datatype.Float32, 8: datatype.Int64}
	for k, want := range map[key]int{
		{collective.AllReduce, 1, 0}: 64, {collective.AllReduce, 2, 0}: 64, {collective.AllReduce, 4, 0}: 64,
		{collective.AllReduce, 8, 0}: 96,
		{collective.AllReduce, 1, 1}: 160, {collective.AllReduce, 2, 1}: 128, {collective.AllReduce, 4, 1}: 128,
		{collective.AllReduce, 8, 1}:     128,
		{collective.ReduceScatter, 1, 0}: 192, {collective.ReduceScatter, 4, 1}: 192, {collective.ReduceScatter, 8, 0}: 192,
		{collective.Reduce, 2, 0}: 32, {collective.Reduce, 8, 1}: 32,
	} {
		if got := s.pick(k.c, types[k.width], 100, k.captured).threads; got != want {
			t.Errorf("%v of width %d, captured %d: %d, want %d", k.c, k.width, k.captured, got, want)
		}
	}
	if !s.modes[collective.AllReduce] || s.modes[collective.ReduceScatter] || s.modes[collective.Reduce] {
		t.Errorf("modes: %v", s.modes)
	}
}

// If the modes differ, the engine asks the driver for the mode.
func TestModes(t *testing.T) {
	e := mockEngines(t, 2)[0]
	table := Table{Version: 2, Collectives: map[string][]Row{"all_reduce": {{0, "one_shot_ll128/64"}}},
		Special: []Special{{"all_reduce", ModeGraph, 0, []Row{{0, "two_shot_ll128/64"}}}}}
	var err error
	e.table, err = table.compile()
	must(t, err)
	s, mem := newStream(t, e), memory(t, e, 1<<20)
	put := func() string {
		calls := noted(t, func() { must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 256, s)})) })
		return launches(calls)[0].Kernel
	}
	if got := put(); got != "all_reduce_one_shot_ll128_float32_sum_n2" {
		t.Errorf("eager: %s", got)
	}
	must(t, s.BeginCapture(cuda.CaptureRelaxed))
	if got := put(); got != "all_reduce_two_shot_ll128_float32_sum_n2" {
		t.Errorf("captured: %s", got)
	}
	g, err := s.EndCapture()
	must(t, err)
	must(t, g.Close())
}

func TestForce(t *testing.T) {
	var s selection
	if err := s.force("all_reduce:two_shot_ll/64,allgather:one_shot_ll128, broadcast:two_shot_ll128", true); err != nil {
		t.Fatal(err)
	}
	for captured := range 2 {
		if v := s.pick(collective.AllReduce, datatype.Float16, 1, captured); v != (variant{true, ll, 64}) {
			t.Errorf("all_reduce: %v", v)
		}
		if v := s.pick(collective.AllGather, datatype.Int8, 1<<30, captured); v.twoShot || v.protocol != ll128 {
			t.Errorf("all_gather: %v", v)
		}
		if v := s.pick(collective.Broadcast, datatype.Int8, 1, captured); !v.twoShot {
			t.Errorf("broadcast: %v", v)
		}
	}
	for bad, names := range map[string]string{"all_reduce": "collective:algorithm",
		"nothing:one_shot_ll": "reduce_scatter", "all_reduce:": "collective:algorithm",
		"all_reduce:nothing":     "one_shot_ll128, one_shot_lamport, two_shot_ll, two_shot_ll128, two_shot_lamport",
		"all_gather:two_shot_ll": "one_shot_ll, one_shot_ll128",
		"barrier:one_shot_ll":    "none to choose from", "gather:one_shot_ll": "gather has direct",
		"all_reduce:one_shot_ll/1": "multiple of 32"} {
		if err := s.force(bad, true); !errors.Is(err, collective.ErrInvalidArgument) ||
			!strings.Contains(err.Error(), names) {
			t.Errorf("force(%q): %v", bad, err)
		}
	}
	// The name of a registered algorithm is not checked here.
	if err := s.force("all_reduce:mine", false); err != nil {
		t.Error(err)
	}
	if err := s.force("all_reduce:one_shot_ll/1", false); err == nil {
		t.Error("a bad number of threads: accepted")
	}
}

func TestAlgorithms(t *testing.T) {
	e := mockEngines(t, 4)[0]
	names := map[collective.Collective][]string{}
	for _, a := range e.Algorithms() {
		names[a.Collective] = append(names[a.Collective], a.Name)
		if a.Forceable != slices.Contains(Variants(a.Collective), a.Name) || a.Registered || a.Most < a.Least {
			t.Errorf("%+v", a)
		}
		for _, at := range a.Chosen {
			if at.Least < a.Least || at.Most > a.Most {
				t.Errorf("%+v", a)
			}
		}
	}
	for c := collective.AllReduce; c <= collective.Barrier; c++ {
		if len(names[c]) == 0 {
			t.Errorf("%v has no algorithm", c)
		}
	}
	// The table's rows and the spans agree.
	for _, a := range e.Algorithms() {
		for _, size := range []uint64{1, 1 << 10, 1 << 15, 1<<15 + 1, 1 << 17, 1 << 20, 1 << 24} {
			if !a.Forceable || size > a.Most || a.Collective == collective.AllToAllV {
				continue // streams are chosen message by message
			}
			v := e.table.pick(a.Collective, datatype.Float32, int64(size), 0)
			in := slices.ContainsFunc(a.Chosen, func(s collective.Span) bool { return s.Least <= size && size <= s.Most })
			if in != (strings.HasPrefix(v.String(), a.Name+"/")) {
				t.Errorf("%v %s at %d bytes: chosen %v, the engine takes %v", a.Collective, a.Name, size, in, v)
			}
		}
	}
}

// The documentation page lists every name.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/collectives.md")
	if err != nil {
		t.Fatal(err)
	}
	for c := collective.AllReduce; c <= collective.Barrier; c++ {
		for _, name := range Variants(c) {
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/collectives.md lacks %s of %v", name, c)
			}
		}
	}
}
