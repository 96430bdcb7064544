package contract_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/mockcuda"
	"github.com/goccl/goccl/test/testutil"
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
			"fused_one_shot_bfloat16_g1 41x512+"},
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
	if n := testutil.Allocations(func() {
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
