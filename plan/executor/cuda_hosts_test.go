package executor_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/netfake"
	"github.com/goccl/goccl/transport"
)

// shapes are the numbers of hosts, and of ranks of each, for n ranks of this process. More than two do not share a GPU:
// one of them may allocate memory while the kernels of the others wait for it, and its next kernel then waits for them.
func shapes(t *testing.T, n int) (all [][2]int) {
	gpus, err := cuda.Count()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range [][2]int{{2, 1}, {2, 2}, {4, 1}} {
		if s[0]*s[1] <= min(n, 2*gpus) {
			all = append(all, s)
		}
	}
	return all
}

// TestGPUProgramsOverHosts runs every shipped program for several hosts, over a network that reorders and repeats.
func TestGPUProgramsOverHosts(t *testing.T) {
	n, open := commtest.GPUs(t)
	for _, s := range shapes(t, n) {
		executor.OverHosts(t, s[0], s[1], func(name string, p *plan.Plan) {
			t.Run(name, func(t *testing.T) { onHostsWith(t, open, p, s[0], s[1]) })
		})
		for _, raw := range []bool{false, true} {
			if s[1] == 1 {
				t.Run(fmt.Sprint("packets/", s[0], "/raw ", raw), func(t *testing.T) {
					onHostsWith(t, open, executor.PortPackets(t, s[0], raw), s[0], 1)
				})
			}
		}
	}
}

// TestGPUGraphOverHosts replays captured plans of two hosts between eager launches.
func TestGPUGraphOverHosts(t *testing.T) {
	_, open := commtest.GPUs(t)
	f := netfake.New(netfake.Options{Seed: 5})
	t.Cleanup(f.Close)
	for _, name := range []string{"allreduce_ring", "allgather_direct"} {
		j := newJobOn(t, []int{0, 1}, open, func(h int) transport.Net { return f.Net(fmt.Sprint(h)) })
		p, err := programs.Build(name, programs.Options{Ranks: 2, Hosts: 2})
		if err != nil {
			t.Fatal(err)
		}
		xs := j.load(t, p)
		for i, m := range messages(xs[0], 2, 4, 4096, 256<<10, 3<<20) {
			for _, times := range []int{2, 3} {
				c := planrun.Case{Message: m, Type: datatype.Float32, Times: times, Replays: 20, Seed: uint64(i)}
				if err := j.run(bounded(t), xs, c); err != nil {
					t.Fatalf("%s: %v: %v", name, c, err)
				}
			}
		}
	}
}

// TestGPUAbsentRankOfAnotherHost: the error names the rank and the network.
func TestGPUAbsentRankOfAnotherHost(t *testing.T) {
	_, open := commtest.GPUs(t)
	f := netfake.New(netfake.Options{Seed: 1})
	t.Cleanup(f.Close)
	j := fill(t, &job{boots: bootstrap.NewLocalHosts([]int{0, 1}).Ranks}, open, func(r int, c *executor.Config) {
		c.OpTimeout, c.Net = 300*time.Millisecond, f.Net(fmt.Sprint(r))
	})
	p, err := programs.Build("allreduce_ring", programs.Options{Ranks: 2, Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	xs := j.load(t, p)
	_, _ = planrun.Rank(bounded(t), xs[0], 0, j.devs[0], planrun.Case{Message: 4096, Type: datatype.Float32})
	for end := time.Now().Add(3 * time.Second); j.execs[0].Err() == nil && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	var ce *collective.Error
	if err := j.execs[0].Err(); !errors.As(err, &ce) || !errors.Is(err, collective.ErrTimeout) || ce.Peer != 1 {
		t.Fatal(err)
	}
	t.Log(j.execs[0].Err())
}

// TestGPUBrokenLinkEndsAPlan: both ranks get an error that names the other, before any deadline.
func TestGPUBrokenLinkEndsAPlan(t *testing.T) {
	_, open := commtest.GPUs(t)
	f := netfake.New(netfake.Options{Seed: 2, Break: 400})
	t.Cleanup(f.Close)
	j := fill(t, &job{boots: bootstrap.NewLocalHosts([]int{0, 1}).Ranks}, open, func(r int, c *executor.Config) {
		c.OpTimeout, c.Net = time.Minute, f.Net(fmt.Sprint(r))
	})
	p, err := programs.Build("allreduce_ring", programs.Options{Ranks: 2, Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	xs := j.load(t, p)
	_ = j.each(func(r int) error {
		for j.execs[r].Err() == nil {
			_, _ = planrun.Rank(bounded(t), xs[r], r, j.devs[r], planrun.Case{Message: 1 << 16, Type: datatype.Float32})
		}
		var ce *collective.Error
		if err := j.execs[r].Err(); !errors.As(err, &ce) || !errors.Is(err, collective.ErrPeerDead) || ce.Peer != 1-r {
			t.Errorf("rank %d: %v", r, err)
		}
		return nil
	})
}
