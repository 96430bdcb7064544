package nvlink

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/kernels"
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
		"another's":          `{"version":2,"gpu":"x","ranks":2,"collectives":{"all_gather":[{"bytes":0,"algorithm":"two_shot_ll"}]}}`,
		"nobody's":           `{"gpu":"x","ranks":2,"collectives":{"send":[{"bytes":0,"algorithm":"one_shot_ll"}]}}`,
		"threads":            `{"gpu":"x","ranks":2,"collectives":{"all_reduce":[{"bytes":0,"algorithm":"one_shot_ll/100"}]}}`,
		"no last row":        `{"gpu":"x","ranks":2,"collectives":{"all_reduce":[{"bytes":1,"algorithm":"one_shot_ll"}]}}`,
		"descending":         `{"gpu":"x","ranks":2,"collectives":{"all_reduce":[{"bytes":9,"algorithm":"one_shot_ll"},{"bytes":3,"algorithm":"one_shot_ll"},{"bytes":0,"algorithm":"one_shot_ll"}]}}`,
		"unknown field":      `{"gpu":"x","ranks":2,"rows":1}`,
		"a later version":    `{"version":3,"gpu":"x","ranks":2,"collectives":{}}`,
		"special in 1":       `{"gpu":"x","ranks":2,"special":[{"collective":"all_reduce","mode":"graph","rows":[{"bytes":0,"algorithm":"one_shot_ll"}]}]}`,
		"mode":               `{"version":2,"gpu":"x","ranks":2,"special":[{"collective":"all_reduce","mode":"lazy","rows":[{"bytes":0,"algorithm":"one_shot_ll"}]}]}`,
		"width":              `{"version":2,"gpu":"x","ranks":2,"special":[{"collective":"all_reduce","width":3,"rows":[{"bytes":0,"algorithm":"one_shot_ll"}]}]}`,
		"nothing special":    `{"version":2,"gpu":"x","ranks":2,"special":[{"collective":"all_reduce","rows":[{"bytes":0,"algorithm":"one_shot_ll"}]}]}`,
		"twice": `{"version":2,"gpu":"x","ranks":2,"special":[{"collective":"all_reduce","width":2,"rows":[{"bytes":0,"algorithm":"one_shot_ll"}]},
			{"collective":"allreduce","width":2,"rows":[{"bytes":0,"algorithm":"one_shot_ll"}]}]}`,
	} {
		if _, err := decodeTable(name, []byte(text)); !errors.Is(err, algorithm.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A table of version 1 chooses as before: its rows are for every width and mode, and small broadcasts are one-shot.
func TestTableVersion1(t *testing.T) {
	table, err := decodeTable("old", []byte(`{"gpu":"x","ranks":4,"collectives":{"all_reduce":[{"bytes":1024,"algorithm":"one_shot_ll/64"},{"bytes":0,"algorithm":"two_shot_ll128/512"}],
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
			for bytes, want := range map[int64]string{1: "one_shot_ll/64", 1024: "one_shot_ll/64", 1025: "two_shot_ll128/512", 1 << 40: "two_shot_ll128/512"} {
				if got := s.pick(algorithm.AllReduce, ty, bytes, captured).String(); got != want {
					t.Errorf("%v, %d bytes, captured %d: %s, want %s", ty, bytes, captured, got, want)
				}
			}
			for bytes, want := range map[int64]bool{1: false, broadcastSplit - 1: false, broadcastSplit: true} {
				if got := s.pick(algorithm.Broadcast, ty, bytes, captured); got.twoShot != want {
					t.Errorf("broadcast of %d bytes: %v", bytes, got)
				}
			}
		}
	}
	for c, want := range map[algorithm.Collective]string{algorithm.Broadcast: "two_shot_ll128/128", algorithm.Reduce: "two_shot_ll128/64", algorithm.AllToAll: "one_shot_ll128/64"} {
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
		"collectives":{"all_reduce":`+rows("one_shot_ll/32")+`,"reduce_scatter":`+rows("one_shot_ll/32")+`,"reduce":`+rows("one_shot_ll/32")+`},
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
		c        algorithm.Collective
		width    int
		captured int
	}
	types := map[int]datatype.Type{1: datatype.Float8E5M2, 2: datatype.Bfloat16, 4: datatype.Float32, 8: datatype.Int64}
	for k, want := range map[key]int{
		{algorithm.AllReduce, 1, 0}: 64, {algorithm.AllReduce, 2, 0}: 64, {algorithm.AllReduce, 4, 0}: 64, {algorithm.AllReduce, 8, 0}: 96,
		{algorithm.AllReduce, 1, 1}: 160, {algorithm.AllReduce, 2, 1}: 128, {algorithm.AllReduce, 4, 1}: 128, {algorithm.AllReduce, 8, 1}: 128,
		{algorithm.ReduceScatter, 1, 0}: 192, {algorithm.ReduceScatter, 4, 1}: 192, {algorithm.ReduceScatter, 8, 0}: 192,
		{algorithm.Reduce, 2, 0}: 32, {algorithm.Reduce, 8, 1}: 32,
	} {
		if got := s.pick(k.c, types[k.width], 100, k.captured).threads; got != want {
			t.Errorf("%v of width %d, captured %d: %d, want %d", k.c, k.width, k.captured, got, want)
		}
	}
	if !s.modes[algorithm.AllReduce] || s.modes[algorithm.ReduceScatter] || s.modes[algorithm.Reduce] {
		t.Errorf("modes: %v", s.modes)
	}
}

// If the modes differ, the engine asks the driver for the mode.
func TestModes(t *testing.T) {
	e := mockEngines(t, 2)[0]
	table := Table{Version: 2, Collectives: map[string][]Row{"all_reduce": {{0, "one_shot_ll128/64"}}}, Special: []Special{{"all_reduce", ModeGraph, 0, []Row{{0, "two_shot_ll128/64"}}}}}
	var err error
	e.table, err = table.compile()
	must(t, err)
	s, mem := newStream(t, e), memory(t, e, 1<<20)
	put := func() string {
		calls := noted(t, func() { must(t, e.Enqueue(1, []algorithm.Request{allReduce(mem, 256, s)})) })
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
		if v := s.pick(algorithm.AllReduce, datatype.Float16, 1, captured); v != (variant{true, ll, 64}) {
			t.Errorf("all_reduce: %v", v)
		}
		if v := s.pick(algorithm.AllGather, datatype.Int8, 1<<30, captured); v.twoShot || v.protocol != ll128 {
			t.Errorf("all_gather: %v", v)
		}
		if v := s.pick(algorithm.Broadcast, datatype.Int8, 1, captured); !v.twoShot {
			t.Errorf("broadcast: %v", v)
		}
	}
	for bad, names := range map[string]string{"all_reduce": "collective:algorithm", "nothing:one_shot_ll": "reduce_scatter", "all_reduce:": "collective:algorithm",
		"all_reduce:nothing": "one_shot_ll, one_shot_ll128, two_shot_ll, two_shot_ll128", "all_gather:two_shot_ll": "one_shot_ll, one_shot_ll128",
		"gather:one_shot_ll": "none to choose from", "all_reduce:one_shot_ll/1": "multiple of 32"} {
		if err := s.force(bad, true); !errors.Is(err, algorithm.ErrInvalidArgument) || !strings.Contains(err.Error(), names) {
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
	names := map[algorithm.Collective][]string{}
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
	for c := algorithm.AllReduce; c <= algorithm.Barrier; c++ {
		if len(names[c]) == 0 {
			t.Errorf("%v has no algorithm", c)
		}
	}
	// The table's rows and the spans agree.
	for _, a := range e.Algorithms() {
		for _, size := range []uint64{1, 1 << 10, 1 << 15, 1<<15 + 1, 1 << 17, 1 << 20, 1 << 24} {
			if !a.Forceable || size > a.Most {
				continue
			}
			v := e.table.pick(a.Collective, datatype.Float32, int64(size), 0)
			in := slices.ContainsFunc(a.Chosen, func(s algorithm.Span) bool { return s.Least <= size && size <= s.Most })
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
	for c := algorithm.AllReduce; c <= algorithm.Barrier; c++ {
		for _, name := range Variants(c) {
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/collectives.md lacks %s of %v", name, c)
			}
		}
	}
}

// The kernels read these structs as they lie in memory (kernels/collective/args.cuh, p2p.cuh).
func TestLayout(t *testing.T) {
	var a collectiveArgs
	var p p2pArgs
	var few p2pFewArgs
	for name, got := range map[string][2]uintptr{
		"Args.ticket":     {unsafe.Offsetof(a.ticket), 0},
		"P2PHead.ticket":  {unsafe.Offsetof(p.ticket), 0},
		"P2PHead.window":  {unsafe.Offsetof(p.window), 8},
		"P2PHead":         {unsafe.Sizeof(p.p2pHead), 168},
		"P2PFewArgs.lane": {unsafe.Offsetof(few.lane), 168},
		"P2PFewArgs":      {unsafe.Sizeof(few), 168 + 24*p2pFewMessages},
		"Args.abort":      {unsafe.Offsetof(a.abort), 136},
		"Args.bytes":      {unsafe.Offsetof(a.bytes), 168},
		"Args.rank":       {unsafe.Offsetof(a.rank), 192},
		"Args.root":       {unsafe.Offsetof(a.root), 208},
		"Args.scalar":     {unsafe.Offsetof(a.scalar), 216},
		"Args":            {unsafe.Sizeof(a), 232},
		"P2PArgs.lane":    {unsafe.Offsetof(p.lane), 168},
		"P2PArgs.message": {unsafe.Offsetof(p.message), 424},
		"P2PArgs":         {unsafe.Sizeof(p), 424 + 16*p2pMaxMessages},
		"Lane":            {unsafe.Sizeof(p.lane[0]), 8},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, the kernels have %d", name, got[0], got[1])
		}
	}
}

// Compare with the compiler's layout of the structs: a kernel's parameters are the end of its constant bank.
func TestParameterSizes(t *testing.T) {
	const before = 0x160 // of the bank, on sm_80
	for _, group := range []string{"collective", "ring"} {
		image, err := kernels.Image(group, 8, 0)
		if err != nil {
			t.Fatal(err)
		}
		image = bytes.Clone(image)
		copy(image[20:24], []byte{byte(elf.EV_CURRENT), 0, 0, 0}) // cubins have a version of their own
		f, err := elf.NewFile(bytes.NewReader(image))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range kernels.Names(group) {
			name, want := strings.TrimPrefix(entry, kernels.Entry("")), unsafe.Sizeof(collectiveArgs{})
			switch {
			case strings.HasPrefix(name, "point_to_point_few_"):
				want = unsafe.Sizeof(p2pFewArgs{})
			case strings.HasPrefix(name, "point_to_point_"):
				want = unsafe.Sizeof(p2pArgs{})
			case name == "all_to_all_v_device":
				want = unsafe.Sizeof(allToAllVArgs{})
			}
			bank := f.Section(".nv.constant0." + entry)
			if bank == nil {
				t.Fatalf("%s has no constant bank", name)
			}
			if got := bank.Size - before; got != uint64(want) {
				t.Errorf("%s has %d bytes of parameters, the launch %d", name, got, want)
			}
		}
	}
}

// Every kernel that an engine launches has one exit, after its ticket update; GOCCL_KERNEL ensures that. With another
// exit, the next operation on another stream would wait forever.
func TestEveryKernelFinishes(t *testing.T) {
	for _, group := range kernels.Groups() {
		if slices.Contains([]string{"executor", "primitive", "tutorial"}, group) { // launched by others
			continue
		}
		image, err := kernels.Image(group, 99, 0) // text
		if err != nil {
			t.Fatal(err)
		}
		entries := bytes.Split(image, []byte(".visible .entry "))[1:]
		if names := kernels.Names(group); len(entries) != len(names) || len(names) == 0 {
			t.Errorf("%s: found %d of %d kernels", group, len(entries), len(names))
		}
		ticket := []byte("red.release.gpu.global.add.u64")
		for _, e := range entries {
			name, _, _ := bytes.Cut(e, []byte("("))
			body, _, _ := bytes.Cut(e, []byte("\n}")) // functions may follow
			before, after, _ := bytes.Cut(body, ticket)
			for _, way := range []string{"ret;", "exit;", "trap;"} {
				want := btoi(way == "ret;")
				if bytes.Contains(before, []byte(way)) || bytes.Count(after, []byte(way)) != want || bytes.Contains(after, ticket) {
					t.Errorf("%s has a %s that is not past its one ticket: declare kernels with GOCCL_KERNEL", name, way)
				}
			}
		}
	}
}

// Tables accept the names that goccl tune tries.
func TestNumbers(t *testing.T) {
	for c := range algorithm.NumCollectives {
		for _, name := range Variants(c) {
			for _, n := range Numbers(name) {
				v, err := parseVariant(c, fmt.Sprintf("%s/%d", name, n))
				if err != nil || v.String() != fmt.Sprintf("%s/%d", name, n) {
					t.Errorf("%v: %s/%d is %v, %v", c, name, n, v, err)
				}
			}
		}
	}
}

// The headers' constants are repeated in layout.go.
func TestLayoutAgreesWithTheHeaders(t *testing.T) {
	for file, constants := range map[string]map[string]int64{
		"args.cuh":                    {"maxRanks": maxRanks, "epochStride": epochStride / 4},
		"p2p.cuh":                     {"p2pChannels": p2pChannels, "p2pDepth": p2pDepth, "p2pMaxMessages": p2pMaxMessages, "p2pFewMessages": p2pFewMessages},
		"stream.cuh":                  {"streamChannels": streamChannels, "streamRingBytes": streamRingBytes, "streamWorkers": streamWorkers},
		"ring.cuh":                    {"ringChannels": ringChannels, "ringParts": ringParts, "ringLine": ringLine, "ringWorkers": ringWorkers},
		"ring_fold.cuh":               {"foldLag": foldLag},
		"../include/goccl/pipe.cuh":   {"pipeSignalers": pipeSignalers},
		"../include/goccl/reduce.cuh": {"unsignedBit": unsignedBit},
	} {
		text, err := os.ReadFile("../../kernels/collective/" + file)
		if err != nil {
			t.Skip(err) // not a checkout
		}
		for name, want := range constants {
			m := regexp.MustCompile(`constexpr uint32_t ` + name + ` = (\d+)(?: << (\d+))?;`).FindSubmatch(text)
			if m == nil {
				t.Errorf("%s: no constant %s", file, name)
				continue
			}
			v, _ := strconv.ParseInt(string(m[1]), 10, 64)
			shift, _ := strconv.Atoi("0" + string(m[2]))
			if v <<= shift; v != want {
				t.Errorf("%s: %s is %d, layout.go has %d", file, name, v, want)
			}
		}
	}
	if b := arenaBytes(8); b > 60<<20 {
		t.Errorf("the window of 8 ranks has %d bytes", b)
	}
}
