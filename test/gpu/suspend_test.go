package gpu_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine/moe"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/snapshot"
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
		if cycle <= cycles/10 { // the driver still takes memory
			first = [2]int64{used, suspended}
		} else if used < first[0] || suspended < first[1] {
			t.Fatalf("cycle %d: %d bytes are free, suspended %d; after some cycles %v", cycle, used, suspended, first)
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

// TestMain also runs the ranks of tests with several processes.
func TestMain(m *testing.M) {
	commtest.Main(m, map[string]func(*commtest.Process) error{"snapshot": snapshotRank})
}

// snapshotRank replays graphs, suspends, and resumes when it is told to, Rounds times.
func snapshotRank(k *commtest.Process) (err error) {
	c, err := k.Comm(k.Boot)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	g, err := captureMixture(c, cuda.CaptureThreadLocal, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	told, ctx := bufio.NewScanner(os.Stdin), context.Background()
	replay := setting.Get(commtest.MockVariable) == ""
	w, err := registerShared(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.mem.Close()) }()
	if _, err := c.NewFusion(ctx, goccl.FusionConfig{}); err != nil { // their arenas are unmapped too
		return err
	}
	if _, err := c.NewMoE(ctx, moe.Size{Bytes: 1 << 20}); err != nil {
		return err
	}
	if k.Rounds == 0 {
		k.Say("not suspended", nil)
		told.Scan()
		return nil
	}
	for i := range k.Rounds {
		if err := errors.Join(g.round(replay), w.round(k, g.s, byte(i), replay)); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		if err := c.Suspend(ctx); err != nil {
			return err
		}
		k.Say(fmt.Sprint("suspended ", i), nil)
		if !told.Scan() {
			return errors.Join(errors.New("the test has ended"), told.Err())
		}
		if err := c.Resume(ctx); err != nil {
			return err
		}
	}
	return errors.Join(g.round(replay), w.round(k, g.s, 0xff, replay), c.Finalize(ctx))
}

// shared is memory in a window and in a flat window.
type shared struct {
	c    *goccl.Comm
	mem  device.Allocation
	flat *goccl.FlatWindow
}

const sharedBytes = 8 << 20 // of a rank in the all-gather, which copy engines run

func registerShared(c *goccl.Comm) (*shared, error) {
	w, n := &shared{c: c}, int64(c.WorldSize())
	var err error
	if w.mem, err = c.Device().Alloc((n + 1) * sharedBytes); err != nil {
		return nil, err
	}
	if _, err = c.RegisterWindow(w.mem.Ptr(), n*sharedBytes); err == nil {
		w.flat, err = c.RegisterFlat(w.mem.Ptr(), (n+1)*sharedBytes)
	}
	if err != nil {
		return nil, err
	}
	return w, w.flat.Await()
}

// round gathers into the window, and stores into the parts of the peers, at the addresses of the flat window.
func (w *shared) round(k *commtest.Process, s *cuda.Stream, seed byte, compare bool) error {
	c, d, n := w.c, w.c.Device(), w.c.WorldSize()
	ctx, src := context.Background(), w.mem.Ptr().Add(int64(n)*sharedBytes)
	mine := bytes.Repeat([]byte{seed + byte(k.Rank)}, sharedBytes)
	if err := errors.Join(d.CopyIn(src, mine), k.Boot.Barrier(ctx),
		c.AllGather(src, w.mem.Ptr(), sharedBytes, datatype.Int8, s), c.Synchronize(ctx, s),
		k.Boot.Barrier(ctx)); err != nil {
		return err
	}
	all := make([]byte, n*sharedBytes)
	if err := d.CopyOut(all, w.mem.Ptr()); err != nil {
		return err
	}
	for p := range n {
		part := all[p*sharedBytes : (p+1)*sharedBytes]
		if want := bytes.Repeat([]byte{seed + byte(p)}, sharedBytes); compare && !bytes.Equal(part, want) {
			return fmt.Errorf("the part of rank %d in the window is wrong", p)
		}
	}
	for p := range n {
		at := w.flat.Base().Add(int64(p)*w.flat.Stride() + int64(n)*sharedBytes + int64(k.Rank))
		if err := d.CopyIn(at, []byte{seed ^ byte(k.Rank)}); err != nil {
			return err
		}
	}
	got := make([]byte, n)
	if err := errors.Join(k.Boot.Barrier(ctx), d.CopyOut(got, src), k.Boot.Barrier(ctx)); err != nil {
		return err
	}
	for p := range n {
		if got[p] != seed^byte(p) {
			return fmt.Errorf("rank %d has left %#x in the flat window, want %#x", p, got[p], seed^byte(p))
		}
	}
	return nil
}

// snapshots moves ranks, each a process, to host memory and back, while they are suspended. After each Resume
// they replay graphs that were captured at first.
func snapshots(t *testing.T, n, rounds int) {
	t.Helper()
	dev, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dev.Close() }()
	j := commtest.Start(t, commtest.Task{Do: "snapshot", Size: n, Rounds: rounds, CUDA: true,
		OpTimeout: 20 * time.Second})
	var pids []int
	for r := range n {
		pids = append(pids, j.Process(r).Pid)
	}
	states := func(want cuda.ProcessState) {
		for _, pid := range pids {
			if s, err := cuda.Process(pid).State(); err != nil || s != want {
				t.Fatalf("process %d is %v, want %v: %v", pid, s, want, err)
			}
		}
	}
	for i := range rounds {
		j.Await(fmt.Sprint("suspended ", i), commtest.Everyone(n), time.Minute)
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		var free [3]int64
		free[0], _, _ = dev.MemoryInfo()
		begin := time.Now()
		if err := snapshot.Take(ctx, pids); err != nil {
			t.Fatal(err)
		}
		taken := time.Since(begin)
		states(cuda.Checkpointed)
		free[1], _, _ = dev.MemoryInfo()
		begin = time.Now()
		if err := snapshot.Restore(ctx, pids); err != nil {
			t.Fatal(err)
		}
		stop()
		states(cuda.Running)
		t.Logf("%d ranks: taken in %v, restored in %v; %d MiB of GPU 0 were free meanwhile, %d before", n, taken,
			time.Since(begin), free[1]>>20, free[0]>>20)
		for r := range n {
			if err := j.Tell(r, "resume\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	j.Await("done", commtest.Everyone(n), time.Minute)
}

func TestGPUSnapshot(t *testing.T) {
	most, _ := commtest.GPUs(t)
	for _, n := range []int{2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			if n > most {
				t.Skip("fewer GPUs")
			}
			snapshots(t, n, 3)
		})
	}
}

func TestOnMockSnapshot(t *testing.T) {
	commtest.NeedMock(t)
	t.Setenv("MOCKCUDA_CHECKPOINT", t.TempDir())
	snapshots(t, 2, 2)
}

// The driver refuses ranks that map memory of others. The error names the processes.
func TestOnMockSnapshotWithoutSuspend(t *testing.T) {
	commtest.NeedMock(t)
	t.Setenv("MOCKCUDA_CHECKPOINT", t.TempDir())
	j := commtest.Start(t, commtest.Task{Do: "snapshot", Size: 2, CUDA: true})
	j.Await("not suspended", commtest.Everyone(2), time.Minute)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	err := snapshot.Take(ctx, []int{j.Process(0).Pid, j.Process(1).Pid})
	for r := range 2 {
		if want := fmt.Sprintf("checkpoint process %d", j.Process(r).Pid); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
