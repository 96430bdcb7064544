package simulate_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/simulate"
)

func machine(t testing.TB) *simulate.Machine {
	t.Helper()
	m, err := simulate.NamedMachine("h200")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func run(t testing.TB, p *plan.Plan, m *simulate.Machine, size int64) *simulate.Result {
	t.Helper()
	r, err := simulate.Run(p, m, size)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every program ends, takes longer for more bytes, and no port is busy for longer than the launch.
func TestEveryProgramEnds(t *testing.T) {
	m := machine(t)
	for _, p := range programs.All() {
		for _, o := range []programs.Options{{Ranks: 2}, {Ranks: 8}, {Ranks: 16, Hosts: 2}} {
			if p.Supports(o) != nil {
				continue
			}
			pl := build(t, p.Name, o)
			last := 0.0
			for _, size := range []int64{1 << 14, 1 << 17, 1 << 20} {
				r := run(t, pl, m, size)
				if r.Micros <= last {
					t.Errorf("%s: %.3f us for %d bytes, %.3f for fewer", p.Name, r.Micros, size, last)
				}
				last = r.Micros
				for _, u := range r.Ports {
					if u.Share < 0 || u.Share > 1 {
						t.Errorf("%s: rank %d %v busy %.2f of the launch", p.Name, u.Rank, u.Port, u.Share)
					}
				}
			}
		}
	}
}

// Bandwidth cannot exceed the bandwidth of the ports, and a direct exchange with enough blocks comes near it.
func TestPortsLimitBandwidth(t *testing.T) {
	m := machine(t)
	r := run(t, build(t, "allgather_direct", programs.Options{Ranks: 8, Instances: 32}), m, 1<<30)
	if limit := m.NVLink.Port * m.NVLink.Put; r.BusBW > limit || r.BusBW < 0.85*limit {
		t.Errorf("busbw %.1f GB/s of %.1f", r.BusBW, limit)
	}
	m.RanksPerHost, m.NICsPerHost = 1, 1
	r = run(t, build(t, "allgather_direct", programs.Options{Ranks: 16, Hosts: 16, Instances: 1}), m, 1<<30)
	if r.BusBW > m.Rail.NIC || r.BusBW < 0.85*m.Rail.NIC {
		t.Errorf("busbw %.1f GB/s over NICs of %.1f", r.BusBW, m.Rail.NIC)
	}
}

// There is no NVLink between hosts: a plan that uses it there cannot be simulated.
func TestMemoryChannelsStayOnAHost(t *testing.T) {
	m := machine(t)
	m.RanksPerHost = 2
	for _, name := range []string{"allgather_direct", "allgather_ll", "allreduce_switch", "allreduce_ring"} {
		if _, err := simulate.Run(build(t, name, programs.Options{Ranks: 3}), m, 3<<10); !errors.Is(err,
			simulate.ErrUnreachable) || !strings.Contains(err.Error(), "rank 2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := simulate.Run(build(t, "allreduce_ring", programs.Options{Ranks: 4, Hosts: 2}), m, 1<<20); err != nil {
		t.Error(err)
	}
}

// A one-hop exchange of a small message takes little more than Launch + Flag + Finish, and each hop costs one Flag.
func TestSmallMessagesCostLatency(t *testing.T) {
	m := machine(t)
	small := run(t, build(t, "allgather_ll", programs.Options{Ranks: 2}), m, 64).Micros
	if floor := m.Launch + m.Flag + m.Finish; small < floor || small > floor+2 {
		t.Errorf("%.3f us, floor %.3f", small, floor)
	}
	slow := *m
	slow.Flag += 1
	if d := run(t, build(t, "allreduce_twoshot_ll", programs.Options{Ranks: 4}), &slow, 64).Micros - run(t,
		build(t, "allreduce_twoshot_ll", programs.Options{Ranks: 4}), m, 64).Micros; d < 1.99 || d > 2.01 {
		t.Errorf("a flag 1 us slower costs a two-shot all-reduce %.3f us, want 2", d)
	}
}

func TestEqualRunsAreEqual(t *testing.T) {
	p := build(t, "allreduce_tree", programs.Options{Ranks: 12, Hosts: 2})
	m := machine(t)
	m.RanksPerHost, m.NICsPerHost = 6, 6
	a, b := run(t, p, m, 1<<20), run(t, p, m, 1<<20)
	if a.Critical() != b.Critical() ||
		!bytes.Equal(simulate.Render(a, simulate.RenderOptions{}), simulate.Render(b, simulate.RenderOptions{})) {
		t.Error("two runs differ")
	}
}

// Spans of a block do not overlap, and a critical path is a chain that leads from the launch to the end.
func TestSpansAndCriticalPath(t *testing.T) {
	m := machine(t)
	r := run(t, build(t, "allreduce_ring", programs.Options{Ranks: 4, Instances: 2}), m, 1<<22)
	for i := range r.Len() {
		s := r.Span(i)
		if s.End < s.Start || s.Start < m.Launch {
			t.Fatalf("span %+v", s)
		}
		if s.Prev >= 0 && r.Span(s.Prev).End > s.Start+1e-9 {
			t.Fatalf("span %+v begins before its predecessor %+v ends", s, r.Span(s.Prev))
		}
	}
	path := r.CriticalPath()
	if len(path) == 0 || path[0].Start != r.Span(0).Start || path[len(path)-1].End+m.Finish > r.Micros+1e-9 {
		t.Fatalf("critical path of %d spans from %+v to %+v in %.3f us", len(path), path[0], path[len(path)-1], r.Micros)
	}
	ranks := map[int]bool{}
	for i, s := range path {
		ranks[s.Rank] = true
		if i > 0 && s.End < path[i-1].Start {
			t.Errorf("%+v comes before %+v", s, path[i-1])
		}
	}
	if len(ranks) < 4 {
		t.Errorf("the critical path of a ring visits %d of 4 ranks", len(ranks))
	}
}

func TestHangIsReported(t *testing.T) {
	p := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "both wait first", Collective: dsl.SendRecv(2, 1, false)})
	for r := range 2 {
		c := p.MemoryChannel(1-r, r)
		c.Wait(dsl.TB(0))
		c.Signal(dsl.TB(0))
	}
	pl, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	_, err = simulate.Run(pl, machine(t), 1024)
	if !errors.Is(err, simulate.ErrHang) || !strings.Contains(err.Error(), "wait") {
		t.Errorf("error %v", err)
	}
}

func TestPipelineOverlaps(t *testing.T) {
	build := func(unit uint64) *plan.Plan {
		p := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "pipe", Collective: dsl.SendRecv(2, 1, false)})
		scratch := []*dsl.Buffer{p.Rank(0).Scratch(1), p.Rank(1).Scratch(1)}
		for r := range 2 {
			c, ready := p.MemoryChannel(1-r, r), p.Semaphore(r, 0)
			p.Loop(unit, 1, func() {
				p.Rank(r).Copy(scratch[r].Chunk(0), p.Rank(r).Input().Chunk(0), dsl.TB(0))
				ready.Release(dsl.TB(0))
				ready.Acquire(dsl.TB(1))
				c.Put(p.Rank(1-r).Output().Chunk(0), scratch[r].Chunk(0), dsl.TB(1))
			})
		}
		out, err := p.Compile()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	whole, sliced := run(t, build(64<<20), machine(t), 64<<20).Micros, run(t, build(1<<20), machine(t), 64<<20).Micros
	if sliced > 0.8*whole {
		t.Errorf("%.0f us in slices, %.0f us whole: no overlap", sliced, whole)
	}
}

// A simulation's work grows with the ranks and the steps of the plan, not with the square of the ranks: sixteen times
// the hosts take about twice the events a rank.
func TestThousandRanks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds")
	}
	each := func(hosts int) float64 {
		p := build(t, "allreduce_hierarchical", programs.Options{Ranks: 8 * hosts, Hosts: hosts})
		r := run(t, p, machine(t), 256<<20)
		t.Logf("%d events\n%s", r.Events, r.Summary())
		return float64(r.Events) / float64(8*hosts)
	}
	if few, many := each(8), each(128); many > 3*few {
		t.Errorf("%.0f events a rank of 64, %.0f of 1024", few, many)
	}
}

func BenchmarkThousandRanks(b *testing.B) {
	p := build(b, "allreduce_hierarchical", programs.Options{Ranks: 1024, Hosts: 128})
	for b.Loop() {
		run(b, p, machine(b), 256<<20)
	}
}

func TestRenderIsWellFormed(t *testing.T) {
	r := run(t, build(t, "allreduce_twoshot_ll", programs.Options{Ranks: 4, Instances: 1}), machine(t), 1<<16)
	svg := simulate.Render(r, simulate.RenderOptions{})
	d := xml.NewDecoder(bytes.NewReader(svg))
	bars, curves := 0, 0
	for {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := tok.(xml.StartElement); ok {
			for _, a := range e.Attr {
				switch {
				case a.Name.Local == "class" && a.Value == "op":
					bars++
				case a.Name.Local == "class" && a.Value == "go":
					curves++
				}
			}
		}
	}
	causes := 0
	for i := range r.Len() {
		if r.Span(i).Cause >= 0 {
			causes++
		}
	}
	if bars != r.Len() || curves != causes || causes < 12 {
		t.Errorf("%d bars for %d spans, %d curves for %d causes", bars, r.Len(), curves, causes)
	}
	page := string(simulate.Render(r, simulate.RenderOptions{HTML: true}))
	if !strings.HasPrefix(page, "<!DOCTYPE html>") || !strings.Contains(page, "</svg>") {
		t.Error("no HTML page around the picture")
	}
}

func TestMachines(t *testing.T) {
	files, err := filepath.Glob("machines/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d machines, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		m, err := simulate.NamedMachine(name)
		if err != nil {
			t.Fatal(err)
		}
		again, err := simulate.ParseMachine(m.JSON())
		if err != nil || *again != *m {
			t.Errorf("%s: reading what was written: %v", name, err)
		}
	}
	good := string(machine(t).JSON())
	for name, bad := range map[string]string{
		"unknown key": strings.Replace(good, `"launch_us"`, `"lunch_us"`, 1),
		"efficiency":  strings.Replace(good, `"copy_efficiency": 1`, `"copy_efficiency": 1.5`, 1),
		"rate":        strings.Replace(good, `"nic_gbps": 48`, `"nic_gbps": 0`, 1),
		"hosts":       strings.Replace(good, `"ranks_per_host": 8`, `"ranks_per_host": 0`, 1),
		"no JSON":     "{",
	} {
		if _, err := simulate.ParseMachine([]byte(bad)); !errors.Is(err, simulate.ErrMachine) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := machine(t).Get("speed"); !errors.Is(err, simulate.ErrMachine) {
		t.Errorf("error %v", err)
	}
}

func BenchmarkRun(b *testing.B) {
	p := build(b, "allreduce_direct", programs.Options{Ranks: 8})
	m := machine(b)
	for b.Loop() {
		run(b, p, m, 1<<24)
	}
}
