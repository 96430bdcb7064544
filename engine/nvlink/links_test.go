package nvlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
)

// Below NVLink no operation runs a kernel that needs lines of 128 bytes to arrive as a whole.
func TestNoLinesBelowNVLink(t *testing.T) {
	for _, c := range []struct {
		variable, value string
		link            LinkKind
	}{{"MOCKCUDA_NO_NVLINK", "1", PCIe}, {"GOCCL_LINK", "host", HostMemory}} {
		t.Run(c.link.String(), func(t *testing.T) {
			t.Setenv(c.variable, c.value)
			testNoLines(t, c.link)
		})
	}
}

func testNoLines(t *testing.T, link LinkKind) {
	const room = 32 << 20
	for _, n := range []int{2, 3, 4} {
		e := mockEngines(t, n)[1]
		if e.gpu.Link != link {
			t.Fatalf("%d ranks use %v", n, e.gpu.Link)
		}
		s, mem := newStream(t, e), memory(t, e, 2*room)
		seen := map[string]bool{}
		run := func(r collective.Request) {
			t.Helper()
			var reqs []collective.Request
			if r.Collective == collective.Send {
				back := r
				back.Collective = collective.Recv
				reqs = append(reqs, back)
			}
			calls := launches(noted(t, func() { must(t, e.Enqueue(1, append(reqs, r))) }))
			if len(calls) == 0 {
				t.Fatalf("%v of %d × %v launches nothing", r.Collective, r.Count, r.Type)
			}
			for _, c := range calls {
				seen[c.Kernel] = true
				if needsLines(c.Kernel) {
					t.Errorf("%d ranks, %v(%v) of %d × %v: %s", n, r.Collective, r.Op, r.Count, r.Type, c.Kernel)
				}
			}
		}
		for c := collective.AllReduce; c < collective.NumCollectives; c++ {
			if c == collective.AllToAllV || c == collective.AllToAllVDevice {
				continue
			}
			for ty := range datatype.NumTypes {
				for _, op := range []datatype.Op{datatype.Sum, datatype.Max} {
					for _, count := range []int64{1, 8, 1001, 70000, 1 << 20} {
						r := collective.Request{Collective: c, Send: mem, Recv: mem.Add(room), Count: count, Type: ty, Op: op,
							Root: n - 1, Peer: n - 1, Stream: s}
						if n == 2 {
							r.Peer = 0
						}
						run(r)
						if c == collective.AllToAll { // in place, and at another alignment
							r.Send, r.Recv = mem.Add(8), mem.Add(8)
							run(r)
						}
					}
				}
			}
		}
		v := collective.Request{Collective: collective.AllToAllV, Send: mem, Recv: mem.Add(room), Type: datatype.Int8,
			Stream:     s,
			SendCounts: make([]int64, n), RecvCounts: make([]int64, n), SendDispls: make([]int64, n),
			RecvDispls: make([]int64, n)}
		v.SendCounts[0], v.RecvCounts[0] = 100, 5
		run(v)
		v.Collective = collective.AllToAllVDevice
		v.DeviceCounts = collective.DeviceCounts{SendCounts: mem, RecvCounts: mem, SendDispls: mem, RecvDispls: mem}
		run(v)
		for _, want := range []string{"all_reduce_one_shot_ll_int8", "reduce_scatter_ll_float8e4m3", "all_reduce_ring_int64",
			"point_to_point_stream", "point_to_point_few_ll", "all_to_all_v_device_ll", "broadcast_ring_words"} {
			if !seen[want] {
				t.Errorf("%d ranks: %s is never launched", n, want)
			}
		}
		small := collective.Request{Collective: collective.Broadcast, Send: mem, Recv: mem, Count: 1000, Type: datatype.Int8,
			Stream: s}
		calls := launches(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{small})) }))
		if got := names(calls); len(got) != 1 || got[0] != "point_to_point_few_ll" {
			t.Errorf("%d ranks: a small broadcast launches %v", n, got)
		}
		for _, i := range e.Algorithms() {
			if i.Tags["ll128"] != 0 {
				t.Errorf("%v by %s is listed", i.Collective, i.Name)
			}
		}
		if err := e.Force("all_reduce:two_shot_ll128"); !errors.Is(err, collective.ErrUnsupported) ||
			!strings.Contains(err.Error(), "NVLink") {
			t.Errorf("forced: %v", err)
		}
	}
}

// needsLines reports whether a kernel stores lines of LL128. It returns true for a kernel of an unknown family.
func needsLines(kernel string) bool {
	right := strings.Contains(kernel, "_ll_") || strings.HasSuffix(kernel, "_ll") || strings.Contains(kernel, "_ring") ||
		kernel == "point_to_point_stream"
	return !right || strings.Contains(kernel, "ll128")
}

// newOnAll returns the errors of New on n ranks, each on its own GPU.
func newOnAll(t *testing.T, n int) []error {
	t.Helper()
	if notes == nil {
		t.Skip("this test needs the mock driver: gcc, and no GPU")
	}
	boots, errs := bootstrap.NewLocalGroup(n), make([]error, n)
	done := make(chan int, n)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for r := range n {
		dev, err := cuda.Open(r)
		must(t, err)
		t.Cleanup(func() { _ = dev.Close() })
		go func() {
			var e *Engine
			e, errs[r] = New(ctx, Config{Job: collective.Job{Bootstrap: boots[r], Device: dev}})
			if e != nil {
				_ = e.Close()
			}
			_ = boots[r].Close() // as a communicator does if its engine fails
			done <- r
		}()
	}
	for range n {
		<-done
	}
	return errs
}

// If one rank cannot proceed, all ranks fail with the reason.
func TestAllRanksRefuse(t *testing.T) {
	for _, c := range []struct {
		variable, value string
		kind            error
		want            []string
	}{
		{"MOCKCUDA_CAPABILITY", "75", collective.ErrUnsupported, []string{"7.5", "8.0", "CUDA_VISIBLE_DEVICES"}},
		{"GOCCL_TUNING", "/nosuch", collective.ErrInvalidArgument, []string{"GOCCL_TUNING", "/nosuch"}},
	} {
		t.Run(c.variable, func(t *testing.T) {
			t.Setenv(c.variable, c.value)
			for r, err := range newOnAll(t, 3) {
				if !errors.Is(err, c.kind) ||
					slices.ContainsFunc(c.want, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
					t.Errorf("rank %d: %v; want %v, and in its text %q", r, err, c.kind, c.want)
				}
			}
		})
	}
}

func TestConclude(t *testing.T) {
	good := func() []hello {
		return []hello{{GPU: "A", Major: 9, BusID: "1"}, {GPU: "A", Major: 9, BusID: "2", Blocks: 7},
			{GPU: "A", Major: 9, BusID: "1"}}
	}
	got, err := conclude(nil, 0, good())
	if err != nil || got.gpu != (GPU{Name: "A", Major: 9}) || got.sharing != 2 || got.blocks != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	mixed := good()
	mixed[1].GPU, mixed[1].Major, mixed[1].Minor = "B", 8, 6
	if got, err := conclude(nil, 0, mixed); err != nil || got.gpu != (GPU{Major: 8, Minor: 6}) {
		t.Errorf("%+v, %v", got, err)
	}
	for rank := range 3 { // all ranks report it, including the one whose peers differ
		other := good()
		other[2].Tuning = 5
		if _, err := conclude(nil, rank, other); !errors.Is(err, collective.ErrMismatch) ||
			!strings.Contains(err.Error(), "GOCCL_TUNING") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	broken := good()
	broken[1].Error = "it is tired"
	if _, err := conclude(nil, 2, broken); fault.PeerOf(err) != 1 || !strings.Contains(err.Error(), "tired") {
		t.Errorf("%v", err)
	}
}

// A GPU without measurements gets sizes scaled by its bandwidth, and a note.
func TestDerivedTables(t *testing.T) {
	base, err := LoadTable("", GPU{Name: "NVIDIA H200", Major: 9}, 4)
	must(t, err)
	for _, c := range []struct {
		gpu      GPU
		num, den int64
	}{{GPU{Name: "NVIDIA A100-SXM4-80GB", Major: 8}, 2, 3}, {GPU{Name: "NVIDIA H100", Major: 9}, 1, 1},
		{GPU{Name: "NVIDIA B200", Major: 10}, 2, 1}, {GPU{Major: 8, Minor: 6}, 56, 450}} {
		got, err := LoadTable("", c.gpu, 4)
		must(t, err)
		if _, err := got.compile(); err != nil {
			t.Errorf("%v: %v", c.gpu, err)
		}
		for name, rows := range base.Collectives {
			for i, r := range rows {
				if want := r.Bytes * c.num / c.den; got.Collectives[name][i].Bytes != want ||
					got.Collectives[name][i].Algorithm != r.Algorithm {
					t.Errorf("%v: %s row %d: %+v, want %d bytes of %+v", c.gpu, name, i, got.Collectives[name][i], want, r)
				}
			}
		}
		if measured, note, err := Tuned(c.gpu, 4); measured || err != nil || !strings.Contains(note, "NVIDIA H200") {
			t.Errorf("%v: %v %q %v", c.gpu, measured, note, err)
		}
	}
	if measured, _, err := Tuned(GPU{Name: "NVIDIA H200", Major: 9}, 8); !measured || err != nil {
		t.Errorf("%v %v", measured, err)
	}
	for _, link := range []LinkKind{PCIe, HostMemory} {
		for _, n := range []int{2, 8, 16} {
			got, err := LoadTable("", GPU{Name: "NVIDIA H200", Major: 9, Link: link}, n)
			must(t, err)
			s, err := got.compile()
			must(t, err)
			if err := s.avoidLL128(); err != nil || !got.standIn || got.GPU != link.table() {
				t.Errorf("%d ranks over %v: %s: %v", n, link, got.GPU, err)
			}
		}
	}
	if s, err := base.compile(); err != nil || s.avoidLL128() == nil {
		t.Error(fmt.Sprint("lines of a measured table pass over PCIe: ", err))
	}
}

// logged returns the log of the engines of n ranks during their set-up.
func logged(t *testing.T, n int) string {
	t.Helper()
	warned.Clear()
	var b bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	defer slog.SetDefault(before)
	if err := errors.Join(newOnAll(t, n)...); err != nil {
		t.Error(err)
	}
	return b.String()
}

// Unexpected choices are logged once.
func TestWarnings(t *testing.T) {
	for _, c := range []struct{ variable, want string }{
		{"MOCKCUDA_NO_NVLINK", "not all GPUs are connected by NVLink"},
		{"CUDA_LAUNCH_BLOCKING", "no tuning table is for these GPUs"}, // any variable: the mock's GPUs are nobody's
	} {
		t.Run(c.variable, func(t *testing.T) {
			if text := logged(t, 3); c.variable != "CUDA_LAUNCH_BLOCKING" && strings.Contains(text, c.want) {
				t.Errorf("unasked: %s", text)
			}
			t.Setenv(c.variable, "1")
			if text := logged(t, 3); strings.Count(text, c.want) != 1 {
				t.Errorf("%q is not said once: %s", c.want, text)
			}
		})
	}
}
