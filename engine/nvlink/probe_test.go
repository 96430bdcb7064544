package nvlink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/share"
)

// forget makes later communicators probe again.
func forget(t *testing.T) {
	reset := func() {
		verdicts.Lock()
		clear(verdicts.of)
		verdicts.Unlock()
	}
	reset()
	t.Cleanup(reset)
}

// Where the driver promises peer access and no data arrives, or other data, engines use host memory, and the pairs say
// why. A forced link fails on every rank.
func TestDeafPeers(t *testing.T) {
	for kind, want := range map[string]string{"1": "does not arrive", "2": "arrives as other data"} {
		t.Run(want, func(t *testing.T) {
			forget(t)
			t.Setenv("MOCKCUDA_DEAF_PEER", kind)
			before := share.Mapped()
			for round := range 2 { // the second one knows already
				var probes int
				calls := noted(t, func() {
					for _, e := range mockEngines(t, 3) {
						if e.gpu.Link != HostMemory {
							t.Errorf("round %d: %v", round, e.gpu.Link)
						}
						for _, p := range e.links {
							if p.Kind != HostMemory || !strings.Contains(p.Reason, want) {
								t.Errorf("round %d: %+v", round, p)
							}
						}
						must(t, e.Close())
					}
				})
				for _, c := range launches(calls) {
					if c.Kernel == "probe_store" {
						probes++
					}
				}
				if wanted := []int{6, 0}[round]; probes != wanted { // of three ranks: peers' memory, host memory
					t.Errorf("round %d: %d probes, want %d", round, probes, wanted)
				}
			}
			if got := share.Mapped(); got != before {
				t.Errorf("%d mappings are left", got-before)
			}
			for _, force := range []string{"pcie", "nvlink"} {
				forget(t)
				t.Setenv("GOCCL_LINK", force)
				for r, err := range newOnAll(t, 2) {
					if !errors.Is(err, collective.ErrUnsupported) || !strings.Contains(err.Error(), want) ||
						!strings.Contains(err.Error(), "GOCCL_LINK="+force) {
						t.Errorf("rank %d: %v", r, err)
					}
				}
			}
		})
	}
}

// A probe's findings count for their pair, and for later communicators of the process.
func TestLearn(t *testing.T) {
	forget(t)
	l := &linkSelection{all: []hello{{BusID: "1"}, {BusID: "1"}, {BusID: "2"}},
		paths: [][]path{make([]path, 3), make([]path, 3), make([]path, 3)}}
	results := [][]uint32{{1, 1, 2}, {1, 1, 1}, {1, 3, 1}}
	if l.learn(0, peerMemory, results) {
		t.Error("all is well")
	}
	for _, c := range []struct {
		a, b int
		want string
	}{{0, 1, ""}, {0, 2, "rank 2 stores in the memory of rank 0 does not arrive"},
		{1, 2, "rank 1 stores in the memory of rank 2 arrives as other data"}} {
		if why := l.broken(c.a, c.b, peerMemory); !strings.Contains(why, c.want) || (why == "") != (c.want == "") {
			t.Errorf("%d and %d: %q", c.a, c.b, why)
		}
	}
	if v := known("1", "2"); v[peerMemory].Proven || v[hostMemory] != (verdict{}) || !known("1", "1")[peerMemory].Proven {
		t.Errorf("%+v", v)
	}
}

// A rank that cannot probe tells the others, and so does one that says nonsense.
func TestProbeFailsTogether(t *testing.T) {
	boots := bootstrap.NewLocalGroup(2)
	defer func() { _ = errors.Join(boots[0].Close(), boots[1].Close()) }()
	for _, c := range []struct {
		other func() error
		want  []string
	}{
		{func() error { return meetProbe(context.Background(), boots[1], nil, errors.New("it burns"), nil) },
			[]string{"rank 1", "it burns"}},
		{func() error { _, err := boots[1].AllGather(context.Background(), []byte("junk")); return err },
			[]string{"rank 1", "one version"}},
		{func() error { return meetProbe(context.Background(), boots[1], []uint32{1}, nil, make([][]uint32, 2)) },
			[]string{"rank 1", "one version"}},
	} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = c.other()
		}()
		err := meetProbe(t.Context(), boots[0], []uint32{1, 1}, nil, make([][]uint32, 2))
		if err == nil || slices.ContainsFunc(c.want, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
			t.Errorf("%v; want %q", err, c.want)
		}
		<-done
	}
}

func TestFound(t *testing.T) {
	if found(probeWorks, 0, 1) != "" {
		t.Error("what works is a finding")
	}
	seen := map[string]bool{}
	for _, result := range []uint32{0, 2, 3, 4, 5, 99} {
		text := found(result, 7, 8)
		if !strings.Contains(text, "7") || !strings.Contains(text, "8") || strings.Contains(text, "%!") {
			t.Errorf("%d: %s", result, text)
		}
		seen[fmt.Sprint(text)] = true
	}
	if len(seen) != 5 {
		t.Errorf("%v", seen)
	}
}

// A GPU that does not end a probe costs the limit, not more, and the rank that has it says so.
func TestProbeHangs(t *testing.T) {
	e := mockEngines(t, 1)[0]
	s, gate := newStream(t, e), memory(t, e, 64)
	must(t, s.WaitValue64(gate, 1)) // as a load that never returns
	p := &prober{dev: e.dev, stream: s}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if err := p.wait(ctx); !errors.Is(err, errHangs) || !errors.Is(err, collective.ErrTimeout) {
		t.Errorf("%v", err)
	}
	must(t, p.close(ctx)) // frees nothing
	open := newStream(t, e)
	must(t, errors.Join(open.WriteValue64(gate, 1), open.Synchronize(t.Context()), p.wait(t.Context())))
}
