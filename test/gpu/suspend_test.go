package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
)

// round replays the graph and enqueues its work again. It compares the results, unless the driver is a mock, whose
// kernels do nothing.
func (k *captured) round(compare bool) error {
	if !compare {
		return errors.Join(k.x.Launch(k.s), k.eager(), k.wait(time.Minute))
	}
	for _, launch := range []func() error{func() error { return k.x.Launch(k.s) }, k.eager} {
		if err := errors.Join(k.spoil(), launch(), k.check()); err != nil {
			return err
		}
	}
	return nil
}

// suspensions suspends and resumes communicators cycles times. Graphs of every collective that were captured before the
// first Suspend are replayed after each Resume, to the same bits. Suspend gives memory back, and the cycles leave
// nothing behind.
func suspensions(t *testing.T, comms []*goccl.Comm, cycles int, replay bool) {
	t.Helper()
	n, ctx := len(comms), context.Background()
	each := func(what string, f func(r int) error) time.Duration {
		begin := time.Now()
		if err := commtest.Each(n, f); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return time.Since(begin)
	}
	graphs := make([]*captured, n)
	each("capture", func(r int) (err error) {
		graphs[r], err = captureMixture(comms[r], cuda.CaptureThreadLocal, 2)
		return err
	})
	defer each("close", func(r int) error { return graphs[r].close() })
	round := func(r int) error { return graphs[r].round(replay) }
	free := func() (least int64) {
		for r, c := range comms {
			now, _, err := c.Device().(*cuda.Device).MemoryInfo()
			if err != nil {
				t.Fatal(err)
			}
			if r == 0 || now < least {
				least = now
			}
		}
		return least
	}
	var times [2][]time.Duration
	var first [2]int64
	each("first round", round)
	for cycle := range cycles {
		used := free()
		times[0] = append(times[0], each("suspend", func(r int) error { return comms[r].Suspend(ctx) }))
		suspended := free()
		m, err := comms[0].Memory()
		if err != nil {
			t.Fatal(err)
		}
		if suspended-used < m.Suspendable {
			t.Fatalf("cycle %d: Suspend gave %d bytes back, Memory says %+v", cycle, suspended-used, m)
		}
		if cycle == 0 {
			first = [2]int64{used, suspended}
		} else if used < first[0] || suspended < first[1] {
			t.Fatalf("cycle %d: %d bytes are free, suspended %d; at first %v", cycle, used, suspended, first)
		}
		times[1] = append(times[1], each("resume", func(r int) error { return comms[r].Resume(ctx) }))
		each(fmt.Sprintf("cycle %d", cycle), round)
	}
	for i, what := range []string{"Suspend", "Resume"} {
		slices.Sort(times[i])
		t.Logf("%d ranks, %s: median %v, worst %v", n, what, times[i][cycles/2], times[i][cycles-1])
	}
	t.Logf("memory given back on the GPU with most in use: %d KiB", (first[1]-first[0])>>10)
}

func TestGPUGraphsSurviveSuspend(t *testing.T) { suspensions(t, commtest.TwoGPUs(t), 100, true) }

// The mock driver ends the process when a graph touches an address where nothing is mapped.
func TestOnMockGraphsSurviveSuspend(t *testing.T) {
	suspensions(t, commtest.OnMock(t, 4, nil), 5, false)
}
