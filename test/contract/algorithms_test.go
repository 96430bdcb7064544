package contract_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

// everyRank runs f for all ranks at once.
func everyRank(comms []*goccl.Comm, f func(c *goccl.Comm) error) error {
	errs := make([]error, len(comms))
	var wg sync.WaitGroup
	for r, c := range comms {
		wg.Go(func() { errs[r] = f(c) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func buildPlan(t *testing.T, name string, n int) *plan.Plan {
	t.Helper()
	p, err := programs.Build(name, programs.Options{Ranks: n})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPlansAreSelected registers plans for most collectives; every collective must still give the right result, for
// every operator.
func TestPlansAreSelected(t *testing.T) {
	const n = 3
	ops, averages := []datatype.Op{datatype.Sum, datatype.Max, datatype.Avg, datatype.PreMulSum},
		[]int64{1, 1013, 70_000, 70_001}
	if testing.Short() { // the others differ in arithmetic
		ops, averages = []datatype.Op{datatype.Sum, datatype.PreMulSum}, averages[1:2]
	}
	comms := commtest.New(t, n, commtest.Host, nil)
	names := []string{"allreduce_twoshot_ll", "allgather_direct", "reducescatter_push", "alltoall_ll", "broadcast_scatter",
		"reduce_direct"}
	for _, name := range names {
		p := buildPlan(t, name, n)
		if err := everyRank(comms, func(c *goccl.Comm) error { return c.RegisterPlan(t.Context(), p) }); err != nil {
			t.Fatal(err)
		}
	}
	ran := make([]map[string]bool, n)
	for r, c := range comms {
		ran[r] = map[string]bool{}
		if got := len(c.Algorithms()); got != len(names) {
			t.Fatalf("%d algorithms", got)
		}
		c.SetSelector(func(_ *collective.Request, list []collective.Algorithm) collective.Algorithm {
			if len(list) == 0 {
				return nil
			}
			ran[r][list[0].Name()] = true
			return list[0]
		})
	}
	for _, coll := range []collective.Collective{collective.AllReduce, collective.AllGather, collective.ReduceScatter,
		collective.AllToAll, collective.Broadcast, collective.Reduce, collective.Gather, collective.Send} {
		for _, op := range ops {
			for _, inPlace := range []bool{false, true} {
				for _, count := range []int64{0, 1, 1013, 70_000} {
					c := conformance.Case{Collective: coll, Type: datatype.Float16, Op: op, Count: count, Root: 0, InPlace: inPlace,
						Seed: rand.Uint64()}
					if err := conformance.Run(comms, c); err != nil {
						t.Fatalf("%v seed %d: %v", c, c.Seed, err)
					}
				}
			}
			if coll != collective.AllReduce && coll != collective.Reduce && coll != collective.ReduceScatter {
				break
			}
		}
	}
	for _, c := range conformance.Averages(n, averages...) {
		if err := conformance.Run(comms, c); err != nil {
			t.Fatal(c, err)
		}
	}
	for _, name := range names {
		if !ran[0][name] {
			t.Errorf("%s never ran", name)
		}
	}
}

func TestPlanFolder(t *testing.T) {
	const n = 2
	dir := t.TempDir()
	for _, name := range []string{"allreduce_direct", "allreduce_ring", "sendrecv_direct"} {
		if err := os.WriteFile(filepath.Join(dir, name+".json"), buildPlan(t, name, n).Encode(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "three.json"), buildPlan(t, "allreduce_ring", 3).Encode(),
		0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCCL_PLAN_DIR", dir)
	t.Setenv("GOCCL_ALGO", "all_reduce:allreduce_ring")
	comms := commtest.New(t, n, commtest.Host, nil)
	list := comms[0].Algorithms()
	if len(list) != 2 || list[0].Name() != "allreduce_direct" || list[1].Name() != "allreduce_ring" {
		t.Fatalf("%d plans: %v", len(list), list)
	}
	coll := collective.NewCollection(0, n, n,
		[]collective.Forced{{Collective: collective.AllReduce, Name: "allreduce_ring"}})
	for _, a := range list {
		if err := coll.Register(a); err != nil {
			t.Fatal(err)
		}
	}
	r := collective.Request{Collective: collective.AllReduce, Count: 100, Type: datatype.Float32}
	if a := coll.Select(&r); a == nil || a.Name() != "allreduce_ring" {
		t.Errorf("GOCCL_ALGO has no effect: %v", a)
	}
	if err := conformance.Run(comms, conformance.Case{Collective: collective.AllReduce, Type: datatype.Float32,
		Count: 1000}); err != nil {
		t.Error(err)
	}
}

// TestPlanFolderMustBeOne: a misspelt folder is an error, not an empty folder.
func TestPlanFolderMustBeOne(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipes", "plan.json")
	if err := errors.Join(os.Mkdir(filepath.Dir(pipe), 0o700), syscall.Mkfifo(pipe, 0o600),
		os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"/nosuch", filepath.Join(dir, "file"), filepath.Dir(pipe)} {
		t.Setenv("GOCCL_PLAN_DIR", at)
		boot := bootstrap.NewLocalGroup(1)[0]
		dev, err := commtest.Host(0)
		if err != nil {
			t.Fatal(err)
		}
		c, err := goccl.NewComm(t.Context(), goccl.Config{Bootstrap: boot, Device: dev})
		if !errors.Is(err, goccl.ErrInvalidArgument) || !strings.Contains(err.Error(), "GOCCL_PLAN_DIR") ||
			!strings.Contains(err.Error(), at) {
			t.Errorf("%s: %v", at, err)
		}
		if c != nil {
			t.Error(c.Close())
		}
		if err := errors.Join(dev.Close(), boot.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestRegisterRefuses(t *testing.T) {
	comms := commtest.New(t, 2, commtest.Host, nil)
	three := buildPlan(t, "allreduce_ring", 3)
	err := everyRank(comms, func(c *goccl.Comm) error { return c.RegisterPlan(t.Context(), three) })
	if !errors.Is(err, goccl.ErrInvalidArgument) {
		t.Error(err)
	}
	good := buildPlan(t, "allreduce_ring", 2)
	for want := range 2 {
		err := everyRank(comms, func(c *goccl.Comm) error { return c.RegisterPlan(t.Context(), good) })
		if (err != nil) != (want == 1) {
			t.Errorf("time %d: %v", want+1, err)
		}
	}
	if err := conformance.Run(comms, conformance.Case{Collective: collective.AllReduce, Type: datatype.Int32,
		Count: 100}); err != nil {
		t.Error(err)
	}
}

// TestAbortWithPlans: an abort also ends running plans.
func TestAbortWithPlans(t *testing.T) {
	comms := commtest.New(t, 2, commtest.Host, nil)
	p := buildPlan(t, "allreduce_direct", 2)
	if err := everyRank(comms, func(c *goccl.Comm) error { return c.RegisterPlan(t.Context(), p) }); err != nil {
		t.Fatal(err)
	}
	comms[0].Abort(nil)
	a, err := comms[0].Device().Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	if err := comms[0].AllReduce(a.Ptr(), a.Ptr(), 10, datatype.Float32, datatype.Sum, nil); !errors.Is(err,
		goccl.ErrAborted) {
		t.Error(err)
	}
}

// One rank aborts while its peers run a plan, which their engine's own work does not show: they are told.
func TestAbortOfOneWithPlans(t *testing.T) {
	comms := commtest.New(t, 3, commtest.Host, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = 10 * time.Minute })
	p := buildPlan(t, "allreduce_direct", 3)
	if err := everyRank(comms, func(c *goccl.Comm) error { return c.RegisterPlan(t.Context(), p) }); err != nil {
		t.Fatal(err)
	}
	if err := commtest.Each(3, func(r int) error {
		if r == 1 {
			time.Sleep(10 * time.Millisecond)
			comms[r].Abort(nil)
			return nil
		}
		u, err := commtest.NewSums(comms[r])
		if err != nil {
			return err
		}
		for _, err := range []error{u.Once(1), comms[r].AsyncError()} {
			var ge *goccl.Error
			if !errors.As(err, &ge) || ge.Peer != 1 || !errors.Is(err, goccl.ErrAborted) {
				t.Errorf("rank %d: %v", r, err)
			}
		}
		return u.Close()
	}); err != nil {
		t.Error(err)
	}
}

// Revoke also ends running plans, even if they wait for a peer.
func TestRevokeWithPlans(t *testing.T) {
	comms := commtest.New(t, 2, commtest.Host, nil)
	p := buildPlan(t, "allreduce_direct", 2)
	if err := everyRank(comms, func(c *goccl.Comm) error { return c.RegisterPlan(t.Context(), p) }); err != nil {
		t.Fatal(err)
	}
	c := comms[0]
	a, err := c.Device().Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Device().NewStream()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AllReduce(a.Ptr(), a.Ptr(), 10, datatype.Float32, datatype.Sum, s); err != nil {
		t.Fatal(err)
	}
	c.Revoke()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if err := s.Synchronize(ctx); ctx.Err() != nil {
		t.Fatalf("after 10 s: %v", err)
	}
	if err := c.AllReduce(a.Ptr(), a.Ptr(), 10, datatype.Float32, datatype.Sum, s); !errors.Is(err, goccl.ErrAborted) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// An unknown name in GOCCL_ALGO is an error when its collective is called. The name of a registered algorithm is
// accepted, and other collectives are not affected.
func TestForcedNames(t *testing.T) {
	t.Setenv("GOCCL_ALGO", "all_reduce:allreduce_twoshot_ll,broadcast:nobody")
	comms := commtest.New(t, 2, commtest.Host, nil)
	p := buildPlan(t, "allreduce_twoshot_ll", 2)
	refused := func(name string, coll collective.Collective) {
		t.Helper()
		err := conformance.Run(comms, conformance.Case{Collective: coll, Type: datatype.Float32, Count: 1000})
		if !errors.Is(err, goccl.ErrInvalidArgument) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: %v", coll, err)
		}
	}
	refused("allreduce_twoshot_ll", collective.AllReduce)
	if err := everyRank(comms, func(c *goccl.Comm) error { return c.RegisterPlan(t.Context(), p) }); err != nil {
		t.Fatal(err)
	}
	refused("nobody", collective.Broadcast)
	for _, coll := range []collective.Collective{collective.AllReduce, collective.AllGather} {
		if err := conformance.Run(comms, conformance.Case{Collective: coll, Type: datatype.Float32,
			Count: 1000}); err != nil {
			t.Errorf("%v: %v", coll, err)
		}
	}
	list := comms[0].Catalog()
	if last := list[len(list)-1]; !last.Registered || !last.Forceable || last.Name != p.Name ||
		last.Collective != collective.AllReduce {
		t.Errorf("%+v", last)
	}
	for _, bad := range []string{"all_reduce", "nothing:x", "send:x"} {
		t.Setenv("GOCCL_ALGO", bad)
		boot := bootstrap.NewLocalGroup(1)[0]
		dev, err := commtest.Host(0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := goccl.NewComm(t.Context(), goccl.Config{Bootstrap: boot, Device: dev}); !errors.Is(err,
			goccl.ErrInvalidArgument) {
			t.Errorf("GOCCL_ALGO=%s: %v", bad, err)
		}
		_, _ = boot.Close(), dev.Close()
	}
}

// A GOCCL_TUNING file that is missing or no table is an error on the host device too, which has no use for one.
func TestTuningFileIsReadOnTheHostDevice(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table.json")
	for text, good := range map[string]bool{
		"": false, "junk": false, `{"junk": 1}`: false, `{"version": 99}`: false,
		`{"collectives": {"nothing": []}}`: false, `{"across_hosts": []}`: true, `{"version": 2}`: true,
	} {
		t.Setenv("GOCCL_TUNING", file)
		if text == "" {
			t.Setenv("GOCCL_TUNING", file+".missing")
		} else if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		boot := bootstrap.NewLocalGroup(1)[0]
		dev, err := commtest.Host(0)
		if err != nil {
			t.Fatal(err)
		}
		c, err := goccl.NewComm(t.Context(), goccl.Config{Bootstrap: boot, Device: dev})
		if good && err == nil {
			_ = c.Close()
		} else if good || !errors.Is(err, goccl.ErrInvalidArgument) || !strings.Contains(err.Error(), "GOCCL_TUNING") ||
			!strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v", text, err)
		}
		_, _ = boot.Close(), dev.Close()
	}
}
