package hosts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
	"github.com/goccl/goccl/test/testutil"
)

// planned makes the plan the first algorithm of c. The result counts the calls that it runs.
func planned(c *goccl.Comm, p *plan.Plan) (calls *int, err error) {
	calls = new(int)
	c.SetSelector(func(_ *collective.Request, found []collective.Algorithm) collective.Algorithm {
		if len(found) == 0 {
			return nil
		}
		*calls++
		return found[0]
	})
	return calls, c.RegisterPlan(context.Background(), p)
}

// collectives of plans.
var collectives = map[plan.Collective]collective.Collective{plan.AllReduce: collective.AllReduce,
	plan.AllGather: collective.AllGather, plan.ReduceScatter: collective.ReduceScatter,
	plan.AllToAll: collective.AllToAll, plan.Broadcast: collective.Broadcast, plan.Reduce: collective.Reduce}

// overHosts calls f for each shipped program that runs over several hosts and that a request can select.
func overHosts(hosts, per int, f func(c collective.Collective, p *plan.Plan) error) error {
	for _, prog := range programs.All() {
		o := programs.Options{Ranks: hosts * per, Hosts: hosts, Instances: 1}
		c, ok := collectives[prog.Collective]
		if !ok || prog.Supports(o) != nil {
			continue
		}
		p, err := prog.Build(o)
		if err != nil {
			return err
		}
		if err := f(c, p); err != nil {
			return fmt.Errorf("%s on %d hosts of %d ranks: %w", prog.Name, hosts, per, err)
		}
	}
	return nil
}

// besideNative runs one rank of the plan and of the engine on the same data: sums of integers have the same bytes, and
// all results equal the reference, within rounding. The seed, which is the same on all ranks, chooses types and sizes.
func besideNative(native, c *goccl.Comm, coll collective.Collective, p *plan.Plan, seed uint64) error {
	calls, err := planned(c, p)
	if err != nil {
		return err
	}
	n, first, step, sizes := c.WorldSize(), 0, 1, []int64{4, 1023, 20000}
	if setting.Lenient().Full == "" { // types change arithmetic only
		first, step, sizes = int(seed%2), 2, []int64{sizes[0], sizes[1+seed/2%2]}
	}
	types := []datatype.Type{datatype.Int32, datatype.Uint64, datatype.Float32, datatype.Bfloat16}
	for i := first; i < len(types); i += step {
		ty := types[i]
		for k, each := range sizes {
			k := conformance.Case{Collective: coll, Type: ty, Count: each * int64(n), Root: p.Root, Seed: uint64(7*i + k)}
			inputs := k.Inputs(n)
			want, err := conformance.RunRank(native, k, inputs)
			if err != nil {
				return fmt.Errorf("native %v: %w", k, err)
			}
			before := *calls
			got, err := conformance.RunRank(c, k, inputs)
			if err != nil {
				return fmt.Errorf("%v: %w", k, err)
			}
			if *calls == before {
				return fmt.Errorf("%v: the plan does not run", k)
			}
			if i < 2 && !bytes.Equal(got, want) {
				return fmt.Errorf("%v: plan and engine have different bytes", k)
			}
		}
	}
	return nil
}

// TestPlansAcrossHosts runs every shipped program beside the native engine.
func TestPlansAcrossHosts(t *testing.T) {
	shapes := [][2]int{{2, 2}}
	if setting.Lenient().Full != "" {
		shapes = append(shapes, [2]int{3, 2}, [2]int{2, 1}, [2]int{2, 4}, [2]int{4, 2}, [2]int{2, 8})
	}
	for _, s := range shapes {
		plansBesideNative(t, s, commtest.Host)
	}
}

func plansBesideNative(t *testing.T, s [2]int, open func(r int) (device.Device, error)) {
	layout := layoutOf(s[0], s[1])
	native := commtest.NewOn(t, layout, open, nil)
	if err := overHosts(s[0], s[1], func(coll collective.Collective, p *plan.Plan) error {
		comms, seed := commtest.NewOn(t, layout, open, nil), rand.Uint64()
		return commtest.Each(len(layout), func(r int) error { return besideNative(native[r], comms[r], coll, p, seed) })
	}); err != nil {
		t.Fatal(err)
	}
}

// TestGPUPlansAcrossHosts is TestPlansAcrossHosts on GPUs. Two ranks may share one.
func TestGPUPlansAcrossHosts(t *testing.T) {
	ranks, open := commtest.GPUs(t)
	gpus, err := cuda.Count()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range [][2]int{{2, 1}, {2, 2}} {
		if n := s[0] * s[1]; n <= min(ranks, 2*gpus) {
			plansBesideNative(t, s, open)
		}
	}
}

func layoutOf(hosts, per int) (list []int) {
	for r := range hosts * per {
		list = append(list, r/per)
	}
	return list
}

// plans is a rank of TestPlansInNamespaces.
func plans(k *commtest.Process) error {
	native, err := k.Comm(k.Boot)
	if err != nil {
		return err
	}
	hosts := k.Rounds
	err = overHosts(hosts, k.Size/hosts, func(coll collective.Collective, p *plan.Plan) error {
		c, err := k.Comm(k.Boot)
		if err != nil {
			return err
		}
		return errors.Join(besideNative(native, c, coll, p, k.Seed), c.Finalize(context.Background()), c.Close())
	})
	return errors.Join(err, native.Finalize(context.Background()), native.Close())
}

// TestPlansInNamespaces does so in processes on several hosts.
func TestPlansInNamespaces(t *testing.T) {
	t.Parallel()
	shapes := [][2]int{{2, 2}}
	if setting.Lenient().Full != "" {
		shapes = append(shapes, [2]int{2, 8}, [2]int{3, 2}, [2]int{4, 4})
	}
	for _, s := range shapes {
		w := testutil.NewNetwork(t, s[0])
		j := start(t, w.Network, layoutOf(s[0], s[1]), commtest.Task{Do: "plans", Rounds: s[0], Seed: rand.Uint64()})
		j.Await("done", commtest.Everyone(s[0]*s[1]), 3*time.Minute)
	}
}

// plannedTraffic is traffic that a plan runs until the failure.
func plannedTraffic(k *commtest.Process) error {
	return trafficOn(k, func(c *goccl.Comm) error {
		prog, err := programs.Lookup("allreduce_hierarchical")
		if err != nil {
			return err
		}
		p, err := prog.Build(programs.Options{Ranks: k.Size, Hosts: 2, Instances: 1})
		if err != nil {
			return err
		}
		_, err = planned(c, p)
		return err
	})
}

// TestKilledRemoteRankOfAPlan kills a rank in the middle of plans: all others name it, and go on without it.
func TestKilledRemoteRankOfAPlan(t *testing.T) {
	t.Parallel()
	errs := failingAs(t, commtest.Task{Do: "planned", Victims: []int{3}}, func(_ *testutil.Network, j *commtest.Job) {
		j.Signal(3, syscall.SIGKILL)
	})
	for r, e := range errs {
		if e.Peer != 3 || e.Kind != goccl.ErrPeerDead.Error() {
			t.Errorf("rank %d: %+v", r, e)
		}
	}
}

// TestPartitionOfAPlan cuts the network silently: each side names ranks of the other, and goes on alone.
func TestPartitionOfAPlan(t *testing.T) {
	t.Parallel()
	errs := failingAs(t, commtest.Task{Do: "planned"}, func(w *testutil.Network, _ *commtest.Job) { w.Port(1, "down") })
	for r, e := range errs {
		if e.Peer/2 == r/2 || e.Kind != goccl.ErrPeerDead.Error() {
			t.Errorf("rank %d: %+v", r, e)
		}
	}
}

// TestPlanOfOneHostIsRefused names the channel and the ranks.
func TestPlanOfOneHostIsRefused(t *testing.T) {
	comms := commtest.NewOn(t, []int{0, 1}, commtest.Host, nil)
	prog, err := programs.Lookup("allreduce_ring")
	if err != nil {
		t.Fatal(err)
	}
	p, err := prog.Build(programs.Options{Ranks: 2})
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range refusals(comms, p) {
		if !errors.Is(err, goccl.ErrUnsupported) || !strings.Contains(err.Error(), "memory channel 0 of rank 0") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func refusals(comms []*goccl.Comm, p *plan.Plan) []error {
	errs := make([]error, len(comms))
	_ = commtest.Each(len(comms), func(r int) error {
		_, errs[r] = planned(comms[r], p)
		return nil
	})
	return errs
}
