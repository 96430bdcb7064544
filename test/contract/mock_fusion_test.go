package contract_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/mockcuda"
)

// fusedOnMock makes four ranks and their fusions.
func fusedOnMock(t *testing.T, cfg goccl.FusionConfig) ([]*goccl.Comm, []*goccl.Fusion) {
	t.Helper()
	comms := commtest.OnMock(t, 4, nil)
	fusions := make([]*goccl.Fusion, len(comms))
	if err := commtest.Each(len(comms), func(r int) (err error) {
		fusions[r], err = comms[r].NewFusion(context.Background(), cfg)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return comms, fusions
}

// launched returns the kernels that do launches, as name, grid, threads and + for those that may overlap the previous.
func launched(t *testing.T, do func() error) string {
	t.Helper()
	trace, err := commtest.MockTrace()
	if err != nil {
		t.Fatal(err)
	}
	trace.Start()
	failed := do()
	calls, err := trace.Stop()
	if failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	var out []string
	for _, c := range calls {
		if c.Kind == mockcuda.Launch {
			s := fmt.Sprintf("%s %dx%d", strings.TrimPrefix(c.Kernel, "ncclDevKernel_goccl_"), c.Grid, c.Block)
			if c.Overlap {
				s += "+"
			}
			out = append(out, s)
		}
		if c.Kind == mockcuda.GraphLaunch {
			out = append(out, "graph")
		}
	}
	return strings.Join(out, ", ")
}

// Each algorithm launches its kernels, one block a row. The slots of the workspace bound the rows of a launch.
func TestOnMockFusedLaunches(t *testing.T) {
	comms, fusions := fusedOnMock(t, goccl.FusionConfig{})
	s, p := commtest.MockStream(t, comms[1]), commtest.Scratch(t, comms[1])
	r := goccl.FusedRequest{Tokens: 4, Hidden: 8192, Type: datatype.Bfloat16, Input: p, Norm: p, Stream: s}
	for _, c := range []struct {
		set  func(r *goccl.FusedRequest)
		want string
	}{
		{func(*goccl.FusedRequest) {}, "all_reduce_"}, // apart, until Tune
		{func(r *goccl.FusedRequest) { r.Algorithm = "apart" }, "fused_finish_bfloat16_g2 4x512+"},
		{func(r *goccl.FusedRequest) { r.Algorithm = "one_shot" }, "fused_one_shot_bfloat16_g2 4x512+"},
		{func(r *goccl.FusedRequest) { r.Algorithm = "two_shot" }, "fused_two_shot_bfloat16_g2 1x512+"},
		{func(r *goccl.FusedRequest) { r.Algorithm, r.Hidden = "one_shot", 4096 }, "fused_one_shot_bfloat16_g1 4x512+"},
		{func(r *goccl.FusedRequest) { r.Algorithm, r.Hidden, r.Type = "one_shot", 264, datatype.Float16 },
			"fused_one_shot_float16_g1 4x64+"},
		{func(r *goccl.FusedRequest) { r.Algorithm, r.Hidden = "one_shot", 16384 }, "all_reduce_"}, // rows too long
		{func(r *goccl.FusedRequest) { r.Algorithm, r.Tokens, r.Hidden = "one_shot", 40, 4096 },
			"fused_one_shot_bfloat16_g1 40x512+"},
		{func(r *goccl.FusedRequest) { r.Algorithm, r.Tokens, r.Hidden = "one_shot", 41, 4096 },
			"fused_one_shot_bfloat16_g1 41x512"},
		{func(r *goccl.FusedRequest) {
			r.Algorithm, r.DividedResidual, r.Residual, r.ResidualOut = "one_shot", true, p+1<<19, p+1<<19
		}, "fused_two_shot_bfloat16_g2 1x512+"},
	} {
		q := r
		c.set(&q)
		got := launched(t, func() error { return fusions[1].AllReduce(q) })
		if !strings.Contains(got, c.want) || strings.HasPrefix(c.want, "fused_o") && got != c.want {
			t.Errorf("%+v launches %s: want %s", q, got, c.want)
		}
	}
	q := r
	q.Algorithm, q.Tokens, q.Hidden = "one_shot", 1000, 8192
	q.Input, q.Norm = 1<<32, 1<<32 // kernels of the mock do nothing
	if got := launched(t, func() error { return fusions[1].AllReduce(q) }); strings.Count(got, "fused_one_shot") < 2 {
		t.Errorf("1000 rows in one launch: %s", got)
	}
}

// In a captured decode step, small fused launches follow each other by programmatic edges: each may come onto the GPU
// before the previous one has ended. The graph replays.
func TestOnMockFusedInGraph(t *testing.T) {
	comms, fusions := fusedOnMock(t, goccl.FusionConfig{})
	s, p := commtest.MockStream(t, comms[0]), commtest.Scratch(t, comms[0])
	r := goccl.FusedRequest{Tokens: 2, Hidden: 1024, Type: datatype.Bfloat16, Input: p, Norm: p, Algorithm: "one_shot",
		Stream: s}
	got := launched(t, func() error {
		if err := s.BeginCapture(cuda.CaptureRelaxed); err != nil {
			return err
		}
		for range 3 {
			if err := fusions[0].AllReduce(r); err != nil {
				return err
			}
		}
		g, err := s.EndCapture()
		if err != nil {
			return err
		}
		x, err := g.Instantiate()
		if err != nil {
			return err
		}
		for range 5 {
			if err := x.Launch(s); err != nil {
				return err
			}
		}
		ctx, stop := context.WithTimeout(context.Background(), commtest.Soon)
		defer stop()
		return s.Synchronize(ctx)
	})
	one := "fused_one_shot_bfloat16_g1 2x128"
	if want := one + ", " + one + "+, " + one + "+"; !strings.HasPrefix(got, want) {
		t.Errorf("got %s: want %s", got, want)
	}
}

// A fused call allocates its request in Go, and nothing else.
func TestOnMockFusedAllocations(t *testing.T) {
	comms, fusions := fusedOnMock(t, goccl.FusionConfig{})
	s, p := commtest.MockStream(t, comms[0]), commtest.Scratch(t, comms[0])
	r := goccl.FusedRequest{Tokens: 2, Hidden: 1024, Type: datatype.Bfloat16, Input: p, Norm: p, Algorithm: "one_shot",
		Stream: s}
	if n := commtest.Allocations(func() {
		if err := fusions[0].AllReduce(r); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// Tune measures all algorithms of every size on all ranks, in graphs, and chooses one.
func TestOnMockFusedTune(t *testing.T) {
	comms, fusions := fusedOnMock(t, goccl.FusionConfig{})
	got := launched(t, func() error {
		return commtest.Each(len(comms), func(r int) error {
			return fusions[r].Tune(context.Background(), goccl.FusionShape{Tokens: 3, Hidden: 1024, Type: datatype.Bfloat16})
		})
	})
	for _, want := range []string{"fused_one_shot_bfloat16_g1 1x128", "fused_one_shot_bfloat16_g1 3x128",
		"fused_two_shot_bfloat16_g1 1x128", "fused_finish_bfloat16_g1 2x128"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s was not measured", want)
		}
	}
	const sizes, algorithms, launches = 3, 3, 2
	if n, want := strings.Count(got, "graph"), sizes*algorithms*launches*len(comms); n != want {
		t.Errorf("%d launches of graphs, want %d", n, want)
	}
}

// GOCCL_ALGO=all_reduce:one_shot_lamport runs the all-reduces that the packets without flags take, and no other ones.
func TestOnMockLamport(t *testing.T) {
	t.Setenv("GOCCL_ALGO", "all_reduce:one_shot_lamport/256")
	comms := commtest.OnMock(t, 4, nil)
	s, p := commtest.MockStream(t, comms[0]), commtest.Scratch(t, comms[0])
	for _, c := range []struct {
		count int64
		typ   datatype.Type
		op    datatype.Op
		want  string
	}{
		{256, datatype.Bfloat16, datatype.Sum, "fused_reduce_bfloat16 1x32+"},
		{32 << 10, datatype.Bfloat16, datatype.Avg, "fused_reduce_bfloat16 16x256+"},
		{32 << 10, datatype.Float32, datatype.Sum, "fused_reduce_float32 32x256+"},
		{33, datatype.Float16, datatype.Sum, "fused_reduce_float16 1x32+"},
		{256, datatype.Int32, datatype.Sum, "all_reduce_one_shot_ll128_int32"},
		{256, datatype.Float32, datatype.Max, "all_reduce_one_shot_ll128_float32"},
		{4 << 20, datatype.Float32, datatype.Sum, "all_reduce_ring_float32_sum"},
	} {
		got := launched(t, func() error { return comms[0].AllReduce(p, p, c.count, c.typ, c.op, s) })
		if got != c.want && !strings.HasPrefix(got, c.want+" ") {
			t.Errorf("%+v launches %s", c, got)
		}
	}
	for most, want := range map[uint16]string{3: "all_reduce_one_shot_ll128_bfloat16_sum_n4 3x256+",
		10: "fused_reduce_bfloat16 10x256+"} { // packets without flags have less room in a block
		r := collective.Request{Collective: collective.AllReduce, Send: p, Recv: p, Count: 32 << 10,
			Type: datatype.Bfloat16, Stream: s, MaxCTAs: most}
		if got := launched(t, func() error { return comms[0].Submit(r) }); got != want {
			t.Errorf("in %d blocks it launches %s, want %s", most, got, want)
		}
	}
	if i := lamportOf(comms[0]); i == nil || i.Most < 512<<10 || !i.Forceable {
		t.Errorf("the catalog has %+v", i)
	}
}

// A table that chooses the packets without flags has them set up; without one they take no memory.
func TestOnMockLamportByTable(t *testing.T) {
	if comms := commtest.OnMock(t, 4, nil); lamportOf(comms[0]) != nil {
		t.Error("the embedded table sets it up")
	}
	file := filepath.Join(t.TempDir(), "table.json")
	if err := os.WriteFile(file, []byte(`{"version": 2, "gpu": "mock", "ranks": 4, "collectives": {"all_reduce": [
		{"bytes": 65536, "algorithm": "one_shot_ll/64"}, {"bytes": 262144, "algorithm": "one_shot_lamport/128"},
		{"bytes": 0, "algorithm": "ring"}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCCL_TUNING", file)
	comms := commtest.OnMock(t, 4, nil)
	s, p := commtest.MockStream(t, comms[0]), commtest.Scratch(t, comms[0])
	for bytes, want := range map[int64]string{1 << 10: "all_reduce_one_shot_ll_bfloat16_sum_n4 2x64+",
		128 << 10: "fused_reduce_bfloat16 64x128+"} {
		got := launched(t, func() error {
			return comms[0].AllReduce(p, p, bytes/2, datatype.Bfloat16, datatype.Sum, s)
		})
		if got != want {
			t.Errorf("%d bytes launch %s, want %s", bytes, got, want)
		}
	}
	i := lamportOf(comms[0])
	if i == nil || len(i.Chosen) != 1 || i.Chosen[0] != (collective.Span{Least: 65537, Most: 262144}) {
		t.Errorf("the catalog has %+v", i)
	}
}

// lamportOf finds the packets without flags in a communicator's catalog.
func lamportOf(c *goccl.Comm) *collective.Info {
	for _, i := range c.Catalog() {
		if i.Name == "one_shot_lamport" {
			return &i
		}
	}
	return nil
}
